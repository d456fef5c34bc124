"""Settings of R2D2. Imports no TensorFlow."""

import dataclasses

from seed_rl.experience.config import ReplayOptions
from seed_rl.networks.config import NetworkConfig
from seed_rl.options import Options, option, part


@dataclasses.dataclass(frozen=True)
class DuelingNetworkConfig(NetworkConfig):
    """R2D2's network (SEED RL, 2020, Table 9)."""

    lstm_size: int = option(
        512, "Units of the LSTM; 0 makes the network feed-forward. The paper has 512.", at_least=0
    )
    head_size: int = option(
        512, "Units of the hidden layer of each of the two dueling streams; the paper has 512.", at_least=1
    )
    start_at_zero: bool = option(
        False,
        "Whether all Q-values are 0 before anything is learned. The paper starts from random ones (Glorot), "
        "which bootstrapping can blow up into an overestimate that takes long to unlearn.",
    )


@dataclasses.dataclass(frozen=True)
class R2D2Config(Options):
    """R2D2 (Kapturowski et al., 2019; SEED RL, 2020, Table 8)."""

    net: DuelingNetworkConfig = part(DuelingNetworkConfig)
    replay: ReplayOptions = part(ReplayOptions)
    unroll_length: int = option(
        80, "T: transitions in an unroll, in agent steps, without the burn-in; the paper has 80.", at_least=1
    )
    burn_in: int = option(
        40,
        "Agent steps before them that only bring the recurrent state up to date; the paper has 40.",
        at_least=0,
    )
    n_steps: int = option(5, "Transitions in a target before it bootstraps; the paper has 5.", at_least=1)
    discounting: float = option(
        0.997, "Discount (gamma) per agent step; the paper has 0.997.", at_least=0, at_most=1
    )
    value_function_rescaling_epsilon: float = option(
        1e-3,
        "Epsilon of h(x) = sign(x) (sqrt(|x| + 1) - 1) + epsilon x, the scale that values are learned in; "
        "the paper has 1e-3.",
        above=0,
    )
    max_abs_reward: float = option(
        0.0, "Highest absolute reward in the loss; 0: not clipped, as in the paper.", at_least=0
    )
    update_target_every_n_step: int = option(
        2500,
        "Updates from one copy of the weights to the target network to the next; the paper has 2500.",
        at_least=1,
    )
    eta: float = option(
        0.9,
        "Weight of the highest absolute temporal difference in an unroll's priority; their mean has 1 - eta. "
        "The paper has 0.9.",
        at_least=0,
        at_most=1,
    )
    num_eval_envs: int = option(
        0,
        "Environments, those with the highest ids, that act with --eval_epsilon and are not trained on.",
        at_least=0,
    )
    eval_epsilon: float = option(
        1e-3,
        "Probability of a random action in those environments. In the others it goes from 0.4 down to 0.4^8 "
        "(Table 8).",
        at_least=0,
        at_most=1,
    )

    def validate(self) -> None:
        """Checks between fields."""
        if self.burn_in >= self.unroll_length:
            raise ValueError(
                f"--burn_in={self.burn_in} must be less than --unroll_length={self.unroll_length}, so that "
                "an unroll shares agent steps with the one before it only; lower it."
            )
        if self.n_steps > self.unroll_length:
            raise ValueError(
                f"--n_steps={self.n_steps} must be at most --unroll_length={self.unroll_length}, the "
                "transitions in an unroll; lower it."
            )
