"""Settings of A2C. Imports no TensorFlow."""

import dataclasses
from typing import Any, ClassVar

from seed_rl.algorithms.actor_critic_config import ActorCriticConfig
from seed_rl.algorithms.options import Kind
from seed_rl.options import option


@dataclasses.dataclass(frozen=True)
class A2CConfig(ActorCriticConfig):
    """A2C (Mnih et al., 2016, without the asynchrony; Stooke & Abbeel, 2018, section 3.1)."""

    title: ClassVar[str] = "A2C"
    trains_on_whole_rollouts: ClassVar[bool] = True

    unroll_length: int = option(
        5,
        "T: transitions that each environment contributes to a rollout, in agent steps; the paper uses 5.",
        at_least=1,
    )
    entropy_cost: float = option(
        0.01, "Weight of the entropy bonus; its initial value if --target_entropy is set.", at_least=0
    )

    @classmethod
    def small_defaults(cls, kind: Kind, choice: str) -> dict[str, Any]:
        """See `AlgorithmOptions`."""
        return {**super().small_defaults(kind, choice), "unroll_length": 16, "batch_share": 1}
