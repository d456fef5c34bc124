"""Settings of V-trace. Imports no TensorFlow."""

import dataclasses

from seed_rl.experience.config import FifoConfig
from seed_rl.networks.config import NetworkConfig
from seed_rl.options import Options, option, part


@dataclasses.dataclass(frozen=True)
class VTraceConfig(Options):
    """V-trace (Espeholt et al., "IMPALA", 2018)."""

    net: NetworkConfig = part(NetworkConfig)
    queue: FifoConfig = part(FifoConfig)
    unroll_length: int = option(20, "T: transitions in an unroll, in agent steps.", at_least=1)
    discounting: float = option(0.99, "Discount (gamma) per agent step.", at_least=0, at_most=1)
    lambda_: float = option(1.0, "V-trace's lambda.", at_least=0, at_most=1)
    clip_rho_threshold: float | None = option(
        1.0, "rho-bar: clips the importance weights of temporal differences; None: not clipped.", above=0
    )
    clip_pg_rho_threshold: float | None = option(
        1.0, "Clips the importance weights of the policy gradient; None: not clipped.", above=0
    )
    clip_c_threshold: float | None = option(
        1.0, "c-bar: clips the importance weights that carry errors back in time; None: not clipped.", above=0
    )
    normalize_advantages: bool = option(
        False,
        "Whether to normalize the policy gradient's advantages to mean 0 and standard deviation 1 in each "
        "batch, as PPO does; the paper does not.",
    )
    baseline_cost: float = option(0.5, "Weight of the baseline loss (half the squared error).", at_least=0)
    entropy_cost: float = option(
        0.00025, "Weight of the entropy bonus; its initial value if --target_entropy is set.", at_least=0
    )
    target_entropy: float | None = option(
        None, "Entropy in nats that --entropy_cost is adjusted to reach; None: the cost is fixed."
    )
    entropy_cost_adjustment_speed: float = option(
        10.0, "How fast the entropy cost is adjusted: the cost is exp(speed * a learned parameter).", above=0
    )
    kl_cost: float = option(
        0.0, "Weight in the loss of KL(old|new), from the behaviour policy to the learned one.", at_least=0
    )
    reward_clipping: str = option(
        "max_abs",
        "How the loss clips rewards: max_abs limits them to --max_abs_reward; soft_asymmetric squeezes them "
        "into (-1.5, 5), so that negative ones weigh less (IMPALA's choice for DMLab-30).",
        choices=("max_abs", "soft_asymmetric"),
    )
    normalize_rewards: bool = option(
        False,
        "Whether the loss divides rewards by the running standard deviation of their discounted sums, before "
        "clipping. The paper does not.",
    )
    max_abs_reward: float = option(
        0.0,
        "Rewards are clipped to this absolute value in the loss; 0 turns clipping off. The paper uses 1 on "
        "Atari.",
        at_least=0,
    )

    def validate(self) -> None:
        """Checks constraints between fields."""
        if self.target_entropy is not None and not self.entropy_cost > 0:
            raise ValueError("--entropy_cost must be greater than 0 if --target_entropy is set.")
        if self.reward_clipping == "soft_asymmetric" and self.max_abs_reward:
            raise ValueError("--max_abs_reward must be 0 if --reward_clipping=soft_asymmetric.")
