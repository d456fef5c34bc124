"""Settings of the optimizer and the trainer. Imports no TensorFlow."""

import dataclasses
import math

from seed_rl.options import Options, option


@dataclasses.dataclass(frozen=True)
class TrainerConfig(Options):
    """Batch, optimizer, schedule and gradient clipping, the same for every agent."""

    batch_size: int = option(32, "Unrolls in a training batch.", at_least=1)
    optimizer: str = option("adam", "Optimizer.", choices=("adam", "rmsprop"))
    learning_rate: float = option(
        0.00048, "Initial learning rate. The paper sweeps 1e-5 to 1e-3 (Tables 6 and 7).", above=0
    )
    learning_rate_schedule: str = option(
        "linear",
        "How the learning rate changes over --total_environment_frames: constant, or linear decay to 0.",
        choices=("constant", "linear"),
    )
    learning_rate_scaling: str = option(
        "none",
        "How the learning rate grows with the batch: linear multiplies it by --batch_size / "
        "--learning_rate_batch_size, sqrt by the square root of that (the best for A2C in Stooke & Abbeel, "
        "2018, section 5.3), none by nothing.",
        choices=("none", "sqrt", "linear"),
    )
    learning_rate_batch_size: int | None = option(
        None, "Unrolls in the batch that --learning_rate is meant for, if it is scaled.", at_least=1
    )
    adam_beta_1: float = option(0.9, "Decay of Adam's mean of gradients.", at_least=0, at_most=1)
    adam_epsilon: float = option(
        3.125e-7, "Adam's epsilon. The paper sweeps 1e-7 to 1e-1 (Table 6).", above=0
    )
    rmsprop_decay: float = option(0.99, "Decay of RMSProp's mean of squares.", at_least=0, at_most=1)
    rmsprop_epsilon: float = option(3.125e-7, "RMSProp's epsilon.", above=0)
    clip_norm: float = option(
        40.0, "Gradients are scaled down to this global norm; 0 turns clipping off.", at_least=0
    )
    log_layer_norms: bool = option(
        False,
        "Whether to log L2 norms of each layer's gradients, parameters and steps as gradient_norm/LAYER, "
        "parameter_norm/LAYER and step_norm/LAYER (Stooke & Abbeel, 2018, appendix C).",
    )

    @property
    def scaled_learning_rate(self) -> float:
        """The learning rate at the start of a run, for its batch size."""
        if self.learning_rate_batch_size is None:
            return self.learning_rate
        ratio = self.batch_size / self.learning_rate_batch_size
        return self.learning_rate * (math.sqrt(ratio) if self.learning_rate_scaling == "sqrt" else ratio)

    def validate(self) -> None:
        """Checks that the learning rate is scaled from a batch size, or not at all."""
        scaling, base = self.learning_rate_scaling, self.learning_rate_batch_size
        if scaling != "none" and base is None:
            raise ValueError(
                f"--learning_rate_scaling={scaling} needs the batch size that --learning_rate is meant for; "
                "set --learning_rate_batch_size."
            )
        if scaling == "none" and base is not None:
            raise ValueError(
                f"--learning_rate_batch_size={base} has no effect without --learning_rate_scaling; set that "
                "to sqrt or linear, or leave it out."
            )
