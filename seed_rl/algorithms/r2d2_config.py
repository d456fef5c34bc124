"""Settings of R2D2. Imports no TensorFlow."""

import dataclasses
from typing import Any, ClassVar

from seed_rl.algorithms.options import Q_LEARNING, AlgorithmOptions, Kind
from seed_rl.experience.experience_config import ReplayConfig
from seed_rl.networks.networks_config import INITIALIZERS, NetworkConfig
from seed_rl.options import option, part


@dataclasses.dataclass(frozen=True)
class DuelingNetworkConfig(NetworkConfig):
    """Settings of R2D2's network (SEED RL, 2020, appendix A.3.1)."""

    initializer: str = option(
        "glorot_uniform",
        "Initializer of layers that are followed by a ReLU. The paper uses glorot_uniform, also for the "
        "LSTM's recurrent kernel, which is orthogonal otherwise.",
        choices=INITIALIZERS,
    )
    max_abs_last_reward: float = option(
        0.0,
        "The last reward is clipped to this absolute value as an input to the network; 0 turns clipping off, "
        "as in the paper (Table 9).",
        at_least=0,
    )
    lstm_size: int = option(
        512, "Units of the LSTM; 0 makes the network feed-forward. The paper uses 512.", at_least=0
    )
    head_size: int = option(
        512, "Units of the hidden layer in each of the two dueling streams; the paper uses 512.", at_least=1
    )
    start_at_zero: bool = option(
        False,
        "Whether all Q-values start at 0. The paper starts from random ones (Glorot), which bootstrapping "
        "can blow up into an overestimate that takes long to unlearn.",
    )


@dataclasses.dataclass(frozen=True)
class R2D2Config(AlgorithmOptions):
    """R2D2 (Kapturowski et al., 2019; SEED RL, 2020, Table 8). Its defaults are the paper's."""

    title: ClassVar[str] = "R2D2"
    actions: ClassVar[tuple[str, ...]] = ("discrete",)
    needs: ClassVar[str] = "one discrete action"

    net: DuelingNetworkConfig = part(DuelingNetworkConfig)
    replay: ReplayConfig = part(ReplayConfig)
    unroll_length: int = option(
        80,
        "T: transitions in an unroll, in agent steps, not counting the burn-in; the paper uses 80.",
        at_least=1,
    )
    burn_in: int = option(
        40,
        "Agent steps before an unroll's transitions that only bring the recurrent state up to date; "
        "the paper uses 40.",
        at_least=0,
    )
    n_steps: int = option(5, "Transitions before a target bootstraps; the paper uses 5.", at_least=1)
    discounting: float = option(
        0.997, "Discount (gamma) per agent step; the paper uses 0.997.", at_least=0, at_most=1
    )
    value_function_rescaling_epsilon: float = option(
        1e-3,
        "Epsilon of h(x) = sign(x) (sqrt(|x| + 1) - 1) + epsilon x, the scale on which values are "
        "learned; the paper uses 1e-3.",
        above=0,
    )
    max_abs_reward: float = option(
        0.0,
        "Rewards are clipped to this absolute value in the loss; 0 turns clipping off, as in the paper.",
        at_least=0,
    )
    update_target_every_n_step: int = option(
        2500, "Updates between copies of the weights to the target network; the paper uses 2500.", at_least=1
    )
    eta: float = option(
        0.9,
        "Weight of the largest absolute temporal difference in an unroll's priority; the mean has weight "
        "1 - eta. The paper uses 0.9.",
        at_least=0,
        at_most=1,
    )
    num_eval_envs: int = option(
        0,
        "Number of evaluation environments, which are those with the highest ids: they act with "
        "--eval_epsilon and are not trained on.",
        at_least=0,
    )
    eval_epsilon: float = option(
        1e-3,
        "Probability of a random action in evaluation environments. In training environments it ranges from "
        "0.4 down to 0.4^8 (Table 8).",
        at_least=0,
        at_most=1,
    )

    @classmethod
    def shared_defaults(cls, environment: str) -> dict[str, Any]:
        """The paper's values of options that R2D2 shares with other agents; see `AlgorithmOptions`."""
        learner = {
            **{"batch_size": 64, "learning_rate": 1e-4, "learning_rate_schedule": "constant"},
            **{"adam_epsilon": 1e-3, "clip_norm": 80.0},
        }
        return learner | ({"torso": "nature", "frame_stack": 4} if environment == "atari" else {})

    def validate(self) -> None:
        """Checks constraints between fields."""
        if self.burn_in >= self.unroll_length:
            raise ValueError(
                f"--burn_in={self.burn_in} must be less than --unroll_length={self.unroll_length}, so that "
                "an unroll overlaps only with the one before it; lower it."
            )
        if self.n_steps > self.unroll_length:
            raise ValueError(
                f"--n_steps={self.n_steps} must be at most --unroll_length={self.unroll_length}, the "
                "number of transitions in an unroll; lower it."
            )

    @classmethod
    def small_defaults(cls, kind: Kind, choice: str) -> dict[str, Any]:
        """See `AlgorithmOptions`."""
        return {
            **Q_LEARNING,
            **{"lstm_size": 128, "head_size": 128, "initializer": "he_normal"},
            **{"unroll_length": 20, "burn_in": 10, "n_steps": 5, "batch_size": 16},
            **{"replay_buffer_size": 10_000, "replay_buffer_min_size": 250, "replay_ratio": 2.0},
            **{"update_target_every_n_step": 100, "num_env_groups": 2},
        }
