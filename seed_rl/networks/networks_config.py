"""Settings of the networks. Imports no TensorFlow."""

import dataclasses

from seed_rl.options import Options, option

TORSOS = ("auto", "mlp", "minatar", "shallow", "nature", "resnet", "football")
INITIALIZERS = ("he_normal", "glorot_uniform")
FRAME_STACKS = (1, 2, 4, 8)


@dataclasses.dataclass(frozen=True)
class NetworkConfig(Options):
    """Settings of everything between the observation and the heads."""

    torso: str = option(
        "auto",
        "Torso for images: minatar (16 3x3, 128), shallow (IMPALA's small CNN: 16 8x8 stride 4, 32 4x4 "
        "stride 2, 256), nature (32 8x8/4, 64 4x4/2, 64 3x3/1, 512), resnet (IMPALA's deep one, 16/32/32, "
        "256), football (resnet with a fourth section, 16/32/32/32, 256) or mlp; auto picks shallow for "
        "images of at least 36x36. Everything but images goes through the MLP.",
        choices=TORSOS,
    )
    network: str | None = option(
        None,
        "Your own network in place of the torsos: package.module:Class, or the name of an entry point in the "
        "group seed_rl.networks; docs/own_network.md describes what it must do.",
        is_code=True,
    )
    mlp_sizes: str = option("64,64", "Units of the MLP's hidden layers, separated by commas; may be empty.")
    mlp_activation: str = option(
        "relu",
        "Activation after each of the MLP's layers. For continuous control, tanh is the better choice "
        "(Andrychowicz et al., 2021).",
        choices=("relu", "tanh"),
    )
    torso_units: int | None = option(
        None,
        "Units of the fully connected layer after a torso's convolutions; 0 leaves it out, for agents whose "
        "heads have a hidden layer of their own. None: the torso's own number.",
        at_least=0,
    )
    network_width: int = option(
        1,
        "Factor on the number of filters of a torso's convolutions; the paper's Medium and Large networks "
        "have 2 and 4 (section 4.4.1).",
        at_least=1,
    )
    conv_padding: int = option(
        0,
        "Zero padding of each convolution after a torso's first, in pixels, for shallow and nature (1 in "
        "Stooke & Abbeel, 2018, section 5.1).",
        at_least=0,
    )
    layer_norm: bool = option(
        False,
        "Whether layer normalization follows each linear layer and each convolution before its activation "
        "(Gallici et al., 2024).",
    )
    lstm_size: int = option(256, "Units of the LSTM; 0 makes the network feed-forward.", at_least=0)
    frame_stack: int = option(
        1,
        "Number of frames to stack for images of uint8 or bool, in agent steps: 1, 2, 4 or 8. The paper "
        "stacks 4 on Atari (Table 9). Frames are sent and stored once, then stacked.",
    )
    normalize_observations: bool = option(
        False,
        "Whether to normalize observations to mean 0 and variance 1 by running statistics (images: a mean "
        "per pixel, one variance). The paper does not: uint8 is divided by 255, the rest left as it is.",
    )
    initializer: str = option(
        "he_normal",
        "Initializer of layers that are followed by a ReLU. The paper's R2D2 uses glorot_uniform, also for "
        "the LSTM's recurrent kernel, which is orthogonal otherwise (A.3.1).",
        choices=INITIALIZERS,
    )
    use_last_action_and_reward: bool = option(
        True, "Whether the last action and the last reward are inputs to the network."
    )
    max_abs_last_reward: float = option(
        1.0,
        "The last reward is clipped to this absolute value as an input to the network; 0 turns clipping off, "
        "as in the paper's R2D2 (Table 9).",
        at_least=0,
    )

    def validate(self) -> None:
        """Checks constraints that limits alone cannot express."""
        if self.frame_stack not in FRAME_STACKS:
            raise ValueError(f"--frame_stack={self.frame_stack} is not valid; choose one of: 1, 2, 4, 8.")
        if self.network is not None and (self.normalize_observations or self.torso != "auto"):
            raise ValueError(
                f"--network={self.network} takes the place of torsos and their scaling; leave out --torso "
                "and --normalize_observations."
            )
        of_torsos = self.layer_norm or self.torso_units is not None or self.network_width > 1
        if self.network is not None and of_torsos:
            raise ValueError(
                f"--network={self.network} takes the place of torsos and their layers; leave out "
                "--layer_norm, --torso_units and --network_width."
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


@dataclasses.dataclass(frozen=True)
class FeedForwardConfig(NetworkConfig):
    """Settings of networks whose input is the observation, unless further inputs are enabled."""

    lstm_size: int = option(0, "Units of the LSTM; 0 makes the network feed-forward.", at_least=0)
    use_last_action_and_reward: bool = option(
        False, "Whether the last action and the last reward are inputs to the network."
    )


@dataclasses.dataclass(frozen=True)
class TransitionNetworkConfig(FeedForwardConfig):
    """Settings of networks that are trained on transitions from replay."""

    lstm_size: int = option(
        0, "Must be 0: replay of transitions keeps no recurrent state. --agent=r2d2 has an LSTM.", at_least=0
    )

    def validate(self) -> None:
        """Checks that there is no LSTM, and what every network must have."""
        super().validate()
        if self.lstm_size:
            raise ValueError(
                f"--lstm_size={self.lstm_size} needs a recurrent state, which replay of transitions does not "
                "keep; choose --agent=r2d2 or set it to 0."
            )
