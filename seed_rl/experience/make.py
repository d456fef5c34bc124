"""From what an agent asks for to the experience that holds its unrolls."""

from seed_rl.experience.base import Experience
from seed_rl.experience.config import FifoConfig
from seed_rl.experience.fifo import Fifo


def make_experience(config: FifoConfig, batch_size: int) -> Experience:
    """The experience for an agent's configuration.

    Args:
      config: the agent's `experience`.
      batch_size: B, unrolls in a batch.

    Raises:
      ValueError: the configuration does not fit the batch.
    """
    return Fifo(batch_size, config.capacity, config.passes)
