"""Settings of SAC. Imports no TensorFlow."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

from seed_rl.algorithms.options import AlgorithmOptions, Kind
from seed_rl.experience.experience_config import TransitionReplayConfig
from seed_rl.networks.networks_config import TransitionNetworkConfig
from seed_rl.options import option, part


@dataclasses.dataclass(frozen=True)
class SACNetworkConfig(TransitionNetworkConfig):
    """Settings of the actor and of the critics, whose sizes are the paper's (Table 1)."""

    mlp_sizes: str = option(
        "256,256",
        "Units of the hidden layers of the actor and of each critic, separated by commas. The paper uses "
        "256,256.",
    )


@dataclasses.dataclass(frozen=True)
class SACReplayConfig(TransitionReplayConfig):
    """Replay of transitions, from which they are drawn uniformly."""

    priority_exponent: float = option(
        0.0,
        "Transitions are drawn in proportion to their priority, the mean absolute error of both critics, "
        "raised to this power; 0: uniformly, as in the paper.",
        at_least=0,
    )
    replay_ratio: float = option(
        256.0,
        "How many times a transition is trained on, on average. The paper uses 256: an update with a "
        "--batch_size of 256 for each agent step.",
        above=0,
    )


@dataclasses.dataclass(frozen=True)
class SACConfig(AlgorithmOptions):
    """SAC with a learned temperature (Haarnoja et al., 2018, arXiv:1812.05905)."""

    title: ClassVar[str] = "SAC"
    actions: ClassVar[tuple[str, ...]] = ("discrete", "continuous")
    needs: ClassVar[str] = "continuous actions or one discrete action"

    net: SACNetworkConfig = part(SACNetworkConfig)
    replay: SACReplayConfig = part(SACReplayConfig)
    discounting: float = option(
        0.99, "Discount (gamma) per agent step; the paper uses 0.99.", at_least=0, at_most=1
    )
    actor_learning_rate: float = option(
        3e-4,
        "Adam's learning rate for the actor, which is constant; the paper uses 3e-4. --learning_rate and the "
        "other settings of the optimizer have no effect on SAC, except --clip_norm.",
        above=0,
    )
    critic_learning_rate: float = option(
        3e-4, "Adam's learning rate for the critics, which is constant; the paper uses 3e-4.", above=0
    )
    temperature_learning_rate: float = option(
        3e-4,
        "Adam's learning rate for the logarithm of the temperature, which is constant; the paper uses 3e-4. "
        "0: the temperature is fixed.",
        at_least=0,
    )
    initial_temperature: float = option(
        1.0, "Temperature (alpha) to start with: the weight of a nat of entropy, in units of reward.", above=0
    )
    target_entropy: float | None = option(
        None,
        "Entropy in nats that the temperature is adjusted to reach, of continuous actions scaled to [-1, 1]. "
        "None: minus the number of continuous components, as in the paper, or --target_entropy_fraction.",
    )
    target_entropy_fraction: float = option(
        0.5,
        "For discrete actions, --target_entropy as a fraction of a uniform policy's. Christodoulou, 2019, "
        "uses 0.98, which is close to random.",
        at_least=0,
        at_most=1,
    )
    target_update_rate: float = option(
        0.005,
        "Tau: how far the target critics move towards the critics after each update; the paper uses 0.005.",
        above=0,
        at_most=1,
    )
    critic_batch_norm: bool = option(
        False,
        "Whether the critics have batch normalization and no targets, as in CrossQ (Bhatt et al., 2024): one "
        "pass evaluates both steps of a transition. --target_update_rate then has no effect, and Adam's "
        "beta_1 is 0.5.",
    )
    critic_sizes: str | None = option(
        None,
        "Units of the hidden layers of each critic, separated by commas; None: --mlp_sizes. CrossQ uses "
        "2048,2048.",
    )
    max_abs_reward: float = option(
        0.0,
        "Rewards are clipped to this absolute value in the loss; 0 turns clipping off, as in the paper.",
        at_least=0,
    )
    random_start: bool = option(
        True,
        "Whether training environments take uniformly random actions until the first update, that is, for "
        "the first --replay_buffer_min_size transitions. If actions have no bounds, the initial policy acts.",
    )
    num_eval_envs: int = option(
        0,
        "Number of evaluation environments, which are those with the highest ids: they act without "
        "exploration and are not trained on.",
        at_least=0,
    )

    @classmethod
    def method_name(cls, settings: Mapping[str, Any]) -> str:
        """The name in print."""
        return "CrossQ" if settings["critic_batch_norm"] else cls.title

    @classmethod
    def small_defaults(cls, kind: Kind, choice: str) -> dict[str, Any]:
        """See `AlgorithmOptions`."""
        rates = ("actor_learning_rate", "critic_learning_rate", "temperature_learning_rate")
        values: dict[str, Any] = {
            **{"env_batch_size": 4, "num_env_groups": 2, "clip_norm": 0.0, "discounting": 0.99},
            **{"batch_size": 128, "replay_ratio": 16.0, "target_entropy_fraction": 0.3},
            **{"replay_buffer_size": 100_000, "replay_buffer_min_size": 2_000},
            **dict.fromkeys(rates, 5e-4),
        }
        if kind.observation == "images":
            values |= {"replay_ratio": 4.0, "max_abs_reward": 1.0, "batch_size": 64}
        if kind.action == "continuous":
            values |= {"replay_ratio": 64.0, "replay_buffer_size": 300_000}
        return values
