"""Settings of the networks. Imports no TensorFlow."""

import dataclasses

from seed_rl.options import Options, option

TORSOS = ("auto", "mlp", "minatar", "shallow", "nature", "resnet", "football")
INITIALIZERS = ("he_normal", "glorot_uniform")
FRAME_STACKS = (1, 2, 4, 8)


@dataclasses.dataclass(frozen=True)
class NetworkConfig(Options):
    """What an observation goes through on its way to the heads."""

    torso: str = option(
        "auto",
        "What images go through: minatar (16 3x3, 128), shallow (IMPALA's small CNN: 16 8x8 stride 4, 32 4x4 "
        "stride 2, 256), nature (32 8x8/4, 64 4x4/2, 64 3x3/1, 512), resnet (IMPALA's deep one, 16/32/32, "
        "256), football (resnet with a fourth section, 16/32/32/32, 256) or mlp; auto takes shallow for "
        "images of at least 36x36. Everything but images goes through the MLP.",
        choices=TORSOS,
    )
    network: str | None = option(
        None,
        "A network of your own in the place of the torsos, package.module:Class or the name of an entry "
        "point in the group seed_rl.networks; seed_rl/networks/custom.py says what it must be.",
    )
    mlp_sizes: str = option("64,64", "Units of the MLP's hidden layers, separated by commas; may be empty.")
    mlp_activation: str = option(
        "relu",
        "What follows each of the MLP's layers. On continuous control tanh is the better choice "
        "(Andrychowicz et al., 2021).",
        choices=("relu", "tanh"),
    )
    lstm_size: int = option(256, "Units of the LSTM; 0 makes the network feed-forward.", at_least=0)
    frame_stack: int = option(
        1,
        "Frames that images of uint8 or bool are stacked over, in agent steps: 1, 2, 4 or 8. The paper "
        "stacks 4 on Atari (Table 9) and Football. Frames are sent and stored once, then stacked.",
    )
    normalize_observations: bool = option(
        False,
        "Whether observations are brought to mean 0 and variance 1 by running statistics (images: a mean per "
        "pixel, one variance). The paper does not: uint8 counts as fractions of 255, and the rest as it is.",
    )
    initializer: str = option(
        "he_normal",
        "What the weights of layers that a ReLU follows start from. The paper's R2D2 has glorot_uniform.",
        choices=INITIALIZERS,
    )
    use_last_action_and_reward: bool = option(
        True, "Whether the last action and the last reward are inputs of the network."
    )
    max_abs_last_reward: float = option(
        1.0,
        "Highest absolute value of the last reward as an input of the network; 0: not clipped, as in the "
        "paper's R2D2 (Table 9).",
        at_least=0,
    )

    def validate(self) -> None:
        """Checks what limits alone cannot say."""
        if self.frame_stack not in FRAME_STACKS:
            raise ValueError(f"--frame_stack={self.frame_stack} is not valid; choose one of: 1, 2, 4, 8.")
        if self.network is not None and (self.normalize_observations or self.torso != "auto"):
            raise ValueError(
                f"--network={self.network} takes the place of torsos and their scaling; leave --torso and "
                "--normalize_observations out."
            )
        if not all(size > 0 for size in self.mlp_units):
            raise ValueError(f"--mlp_sizes={self.mlp_sizes} is not valid; every size must be above 0.")

    @property
    def mlp_units(self) -> tuple[int, ...]:
        """`mlp_sizes` as numbers."""
        try:
            return tuple(int(size) for size in self.mlp_sizes.split(",") if self.mlp_sizes.strip())
        except ValueError:
            raise ValueError(
                f"--mlp_sizes={self.mlp_sizes} is not valid; write whole numbers separated by commas: 64,64."
            ) from None
