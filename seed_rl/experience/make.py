"""From what an agent asks for to the experience that holds its unrolls."""

from collections.abc import Callable

import numpy as np

from seed_rl.experience.base import Experience
from seed_rl.experience.config import FifoConfig, ReplayConfig
from seed_rl.experience.fifo import Fifo
from seed_rl.experience.replay import Replay
from seed_rl.types import Unroll


def make_experience(
    config: FifoConfig | ReplayConfig,
    batch_size: int,
    length: int,
    burn_in: int,
    initial_priorities: Callable[[list[Unroll]], np.ndarray],
    seed: int,
) -> Experience:
    """The experience for an agent's configuration.

    Args:
      config: the agent's `experience`.
      batch_size: B, unrolls in a batch.
      length: T, agent steps.
      burn_in: agent steps before them.
      initial_priorities: gives unrolls that enter replay their priorities `[K]`.
      seed: of draws from replay.

    Raises:
      ValueError: the configuration does not fit the batch or the machine.
    """
    if isinstance(config, FifoConfig):
        return Fifo(batch_size, config.capacity, config.passes)
    return Replay(config, batch_size, length, burn_in, initial_priorities, seed)
