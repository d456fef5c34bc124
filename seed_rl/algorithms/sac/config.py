"""Settings of SAC. Imports no TensorFlow."""

import dataclasses

from seed_rl.experience.config import TransitionReplayConfig
from seed_rl.networks.config import TransitionNetworkConfig
from seed_rl.options import Options, option, part


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
class SACConfig(Options):
    """SAC with a learned temperature (Haarnoja et al., 2018, arXiv:1812.05905)."""

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
