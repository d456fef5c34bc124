"""Settings of the optimizer and the trainer. Imports no TensorFlow."""

import dataclasses

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
    adam_beta_1: float = option(0.9, "Decay of Adam's mean of gradients.", at_least=0, at_most=1)
    adam_epsilon: float = option(
        3.125e-7, "Adam's epsilon. The paper sweeps 1e-7 to 1e-1 (Table 6).", above=0
    )
    rmsprop_decay: float = option(0.99, "Decay of RMSProp's mean of squares.", at_least=0, at_most=1)
    rmsprop_epsilon: float = option(3.125e-7, "RMSProp's epsilon.", above=0)
    clip_norm: float = option(
        40.0, "Gradients are scaled down to this global norm; 0 turns clipping off.", at_least=0
    )
