"""Settings of PPO. Imports no TensorFlow."""

import dataclasses
from typing import Any, ClassVar

from seed_rl.algorithms.actor_critic_config import ActorCriticConfig
from seed_rl.algorithms.options import Kind
from seed_rl.experience.experience_config import RolloutsConfig
from seed_rl.options import Options, option, part


@dataclasses.dataclass(frozen=True)
class ClippingConfig(Options):
    """Clipping: limits on the change of policy and values by one batch."""

    clip_ratio: float = option(
        0.2,
        "Epsilon: probability ratios outside 1 - epsilon to 1 + epsilon add nothing to the gain. The "
        "paper uses 0.2 (table 3), and 0.1 on Atari (table 5).",
        above=0,
    )
    clip_value: float | None = option(
        None,
        "How far the value may move from what it was when the action was chosen before its error counts in "
        "full, in units of scaled returns; None: as far as it likes.",
        above=0,
    )


@dataclasses.dataclass(frozen=True)
class ClippedConfig(ActorCriticConfig):
    """Settings of PPO's loss, whatever it is minimized on."""

    clipping: ClippingConfig = part(ClippingConfig)
    lambda_: float = option(
        0.95, "Lambda of the advantage estimates; PPO's paper uses 0.95.", at_least=0, at_most=1
    )
    normalize_advantages: bool = option(
        True, "Whether to normalize advantages to mean 0 and standard deviation 1 in each (mini)batch."
    )
    entropy_cost: float = option(
        0.01, "Weight of the entropy bonus; its initial value if --target_entropy is set.", at_least=0
    )


@dataclasses.dataclass(frozen=True)
class PPOConfig(ClippedConfig):
    """PPO (Schulman et al., "Proximal Policy Optimization Algorithms", 2017)."""

    title: ClassVar[str] = "PPO"

    rollouts: RolloutsConfig = part(RolloutsConfig)
    unroll_length: int = option(
        128, "T: transitions that each environment contributes to a rollout, in agent steps.", at_least=1
    )
    baseline_cost: float = option(
        0.5, "Weight of the baseline loss (half the squared error). The paper uses 1.", at_least=0
    )
    target_kl: float | None = option(
        None,
        "When KL(old|new) is above this after an epoch, the other epochs are left out; None: never.",
        above=0,
    )

    @classmethod
    def small_defaults(cls, kind: Kind, choice: str) -> dict[str, Any]:
        """See `AlgorithmOptions`."""
        values = {**super().small_defaults(kind, choice), "batch_share": 4}
        if kind.action == "continuous":
            return {**values, "unroll_length": 128, "epochs": 10, "entropy_cost": 0.0}
        if kind.observation == "images":
            return {**values, "unroll_length": 32, "epochs": 2}
        return {**values, "unroll_length": 64, "epochs": 8 if kind.observation == "vectors" else 4}
