"""Settings of A2C. Imports no TensorFlow."""

import dataclasses

from seed_rl.algorithms.actor_critic.config import ActorCriticConfig
from seed_rl.options import option


@dataclasses.dataclass(frozen=True)
class A2CConfig(ActorCriticConfig):
    """A2C (Mnih et al., 2016, without the asynchrony; Stooke & Abbeel, 2018, section 3.1)."""

    unroll_length: int = option(
        5,
        "T: transitions that each environment contributes to a rollout, in agent steps; the paper uses 5.",
        at_least=1,
    )
    entropy_cost: float = option(
        0.01, "Weight of the entropy bonus; its initial value if --target_entropy is set.", at_least=0
    )
