"""Settings of APPO. Imports no TensorFlow."""

import dataclasses

from seed_rl.algorithms.actor_critic.config import ActorCriticConfig
from seed_rl.algorithms.ppo.config import ClippingConfig
from seed_rl.experience.config import FifoConfig
from seed_rl.options import option, part


@dataclasses.dataclass(frozen=True)
class APPOConfig(ActorCriticConfig):
    """APPO: PPO's loss on experience from a queue (Stooke & Abbeel, 2018, section 5.3)."""

    queue: FifoConfig = part(FifoConfig)
    clipping: ClippingConfig = part(ClippingConfig)
    lambda_: float = option(
        0.95, "Lambda of the advantage estimates, generalized or V-trace's.", at_least=0, at_most=1
    )
    normalize_advantages: bool = option(
        True, "Whether to normalize advantages to mean 0 and standard deviation 1 in each batch."
    )
    entropy_cost: float = option(
        0.01, "Weight of the entropy bonus; its initial value if --target_entropy is set.", at_least=0
    )
    vtrace: bool = option(
        True,
        "Whether V-trace corrects values and advantages for how far the policy has moved since it acted. The "
        "paper has no correction: advantages are generalized estimates from the values of that time.",
    )
