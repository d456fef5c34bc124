"""Settings of V-trace. Imports no TensorFlow."""

import dataclasses
from typing import ClassVar

from seed_rl.algorithms.actor_critic_config import ActorCriticConfig
from seed_rl.experience.experience_config import FifoConfig
from seed_rl.options import option, part


@dataclasses.dataclass(frozen=True)
class VTraceConfig(ActorCriticConfig):
    """V-trace (Espeholt et al., "IMPALA", 2018)."""

    title: ClassVar[str] = "V-trace"

    queue: FifoConfig = part(FifoConfig)
    clip_rho_threshold: float | None = option(
        1.0, "rho-bar: clips the importance weights of temporal differences; None: not clipped.", above=0
    )
    clip_pg_rho_threshold: float | None = option(
        1.0, "Clips the importance weights of the policy gradient; None: not clipped.", above=0
    )
    clip_c_threshold: float | None = option(
        1.0, "c-bar: clips the importance weights that carry errors back in time; None: not clipped.", above=0
    )
    kl_cost: float = option(
        0.0, "Weight in the loss of KL(old|new), from the behaviour policy to the learned one.", at_least=0
    )
