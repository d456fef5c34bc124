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
    learning_rate_scaling: str = option(
        "none",
        "How the learning rate grows with the batch: with its square root, linearly, or not at all. For A2C, "
        "Stooke & Abbeel found the square root best (2018, section 5.3). Optimizers that an agent makes "
        "itself, with learning rates of its own, are left alone.",
        choices=("none", "sqrt", "linear"),
    )
    learning_rate_batch_size: int | None = option(
        None,
        "The --batch_size that --learning_rate is meant for; --learning_rate_scaling multiplies the rate by "
        "the ratio of --batch_size to it, or by the square root of that.",
        at_least=1,
    )
    learning_rate_schedule: str = option(
        "linear",
        "How the learning rate changes over --total_environment_frames: constant, or linear decay to 0.",
        choices=("constant", "linear"),
    )
    learning_rate_warm_up_fraction: float = option(
        0.0,
        "Fraction of --total_environment_frames over which the learning rate first grows linearly from 0. "
        "Both papers tried it (SEED RL, section 4.1.2; Stooke & Abbeel, 2018, section 5.3).",
        at_least=0,
        at_most=1,
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

    def validate(self) -> None:
        """Checks that a rule for the learning rate has all it needs."""
        if self.learning_rate_scaling == "none" and self.learning_rate_batch_size is not None:
            raise ValueError(
                f"--learning_rate_batch_size={self.learning_rate_batch_size} has no effect without a rule; "
                "add --learning_rate_scaling=sqrt or linear, or leave it out."
            )
        if self.learning_rate_scaling != "none" and self.learning_rate_batch_size is None:
            raise ValueError(
                f"--learning_rate_scaling={self.learning_rate_scaling} needs the batch size that "
                "--learning_rate is meant for; add --learning_rate_batch_size."
            )

    @property
    def scaled_learning_rate(self) -> float:
        """The initial learning rate for this batch size.

        Stooke & Abbeel (2018), section 5.3, scale it by the square root of the batch's size.
        """
        if self.learning_rate_batch_size is None:
            return self.learning_rate
        ratio = self.batch_size / self.learning_rate_batch_size
        return self.learning_rate * (math.sqrt(ratio) if self.learning_rate_scaling == "sqrt" else ratio)
