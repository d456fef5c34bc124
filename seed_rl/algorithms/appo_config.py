"""Settings of APPO. Imports no TensorFlow."""

import dataclasses
from typing import ClassVar

from seed_rl.algorithms.ppo_config import ClippedConfig
from seed_rl.experience.experience_config import FifoConfig
from seed_rl.options import option, part


@dataclasses.dataclass(frozen=True)
class APPOConfig(ClippedConfig):
    """APPO: PPO's loss on experience from a queue (Stooke & Abbeel, 2018, section 5.3)."""

    title: ClassVar[str] = "APPO"

    queue: FifoConfig = part(FifoConfig)
    vtrace: bool = option(
        True,
        "Whether V-trace corrects values and advantages for how far the policy has moved since it acted. The "
        "paper has no correction: advantages are generalized estimates from the values of that time.",
    )
