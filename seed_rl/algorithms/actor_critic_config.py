"""Settings that all actor-critic algorithms have. Imports no TensorFlow."""

import dataclasses
from typing import Any

from seed_rl.algorithms.options import POLICY_GRADIENT, AlgorithmOptions, Kind
from seed_rl.networks.networks_config import NetworkConfig
from seed_rl.options import option, part


@dataclasses.dataclass(frozen=True)
class ActorCriticConfig(AlgorithmOptions):
    """Settings of the network, the terms of the loss, and rewards."""

    net: NetworkConfig = part(NetworkConfig)
    unroll_length: int = option(20, "T: transitions in an unroll, in agent steps.", at_least=1)
    discounting: float = option(0.99, "Discount (gamma) per agent step.", at_least=0, at_most=1)
    lambda_: float = option(
        1.0,
        "Lambda of the algorithm's returns: 1 looks as far ahead as the unroll does, 0 one agent step.",
        at_least=0,
        at_most=1,
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
    final_entropy_cost: float | None = option(
        None,
        "What the entropy cost falls to, linearly over --total_environment_frames, so that the policy "
        "explores first and takes its best actions in the end. None: it is constant.",
        at_least=0,
    )
    target_entropy: float | None = option(
        None, "Entropy in nats that --entropy_cost is adjusted to reach; None: the cost is fixed."
    )
    entropy_cost_adjustment_speed: float = option(
        10.0, "How fast the entropy cost is adjusted: the cost is exp(speed * a learned parameter).", above=0
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
        "Rewards are clipped to this absolute value in the loss; 0 turns clipping off. On Atari, 1 is "
        "usual (Mnih et al., 2015).",
        at_least=0,
    )

    def validate(self) -> None:
        """Checks constraints between fields."""
        if self.target_entropy is not None and not self.entropy_cost > 0:
            raise ValueError("--entropy_cost must be greater than 0 if --target_entropy is set.")
        if self.target_entropy is not None and self.final_entropy_cost is not None:
            raise ValueError(
                "--target_entropy adjusts the entropy cost, and --final_entropy_cost schedules it; leave out "
                "one of them."
            )
        if self.reward_clipping == "soft_asymmetric" and self.max_abs_reward:
            raise ValueError("--max_abs_reward must be 0 if --reward_clipping=soft_asymmetric.")

    @classmethod
    def small_defaults(cls, kind: Kind, choice: str) -> dict[str, Any]:
        """See `AlgorithmOptions`."""
        with_queue = {"unroll_length": 20, "batch_share": 2, "num_env_groups": 2}
        values = POLICY_GRADIENT | (with_queue if "queue" in cls.parts() else {})
        if kind.action != "continuous":
            return values
        network = {"initializer": "glorot_uniform", "mlp_activation": "tanh"}
        return {**values, **network, "learning_rate": 3e-4, "entropy_cost": 0.001}
