"""Where unrolls go: what an algorithm can ask for, and the options of each kind. Imports no TensorFlow."""

import dataclasses
from collections.abc import Callable

import numpy as np

from seed_rl.experience.base import Experience, ExperienceConfig
from seed_rl.experience.unroll_config import UnrollConfig
from seed_rl.options import Options, option
from seed_rl.types import Unroll


@dataclasses.dataclass(frozen=True)
class FifoConfig(ExperienceConfig):
    """Unrolls go through a bounded queue.

    `capacity`: unrolls waiting for their first pass; None: one training batch. `passes`: times that each is
    trained on.
    """

    capacity: int | None = None
    passes: int = 1

    @property
    def uses(self) -> float:
        """Times that an unroll is trained on."""
        return self.passes

    def make(
        self,
        batch_size: int,
        unroll: UnrollConfig,
        initial_priorities: Callable[[list[Unroll]], np.ndarray],
        seed: int,
    ) -> Experience:
        """The queue; see `ExperienceConfig.make`."""
        from seed_rl.experience.fifo import Fifo

        del unroll, initial_priorities, seed
        return Fifo(batch_size, self.capacity, self.passes)


@dataclasses.dataclass(frozen=True)
class ReplayConfig(ExperienceConfig):
    """Unrolls go to prioritized replay.

    Attributes:
      capacity: most unrolls.
      min_size: unrolls before the first batch is drawn.
      replay_ratio: unrolls drawn for each unroll that comes in, on average.
      priority_exponent: an unroll is drawn with a probability in proportion to its priority to this power.
      importance_sampling_exponent: of the weights that make up for it.
      max_bytes: memory limit; None: a share of the machine's memory.
      compression: of the stored steps, one of `experience.compression.NAMES`.
      stored_info: names in `AgentOutput.info` that the loss needs back. The others are gone once the initial
        priority is computed.
      checkpoint: whether checkpoints include the contents.
    """

    capacity: int
    min_size: int
    replay_ratio: float
    priority_exponent: float
    importance_sampling_exponent: float
    max_bytes: int | None = None
    compression: str = "zstd"
    stored_info: tuple[str, ...] = ()
    checkpoint: bool = False

    @property
    def uses(self) -> float:
        """Times that an unroll is trained on, on average."""
        return self.replay_ratio

    def make(
        self,
        batch_size: int,
        unroll: UnrollConfig,
        initial_priorities: Callable[[list[Unroll]], np.ndarray],
        seed: int,
    ) -> Experience:
        """The replay; see `ExperienceConfig.make`."""
        from seed_rl.experience.replay import Replay

        return Replay(self, batch_size, unroll.length, unroll.burn_in, initial_priorities, seed)


@dataclasses.dataclass(frozen=True)
class FifoOptions(Options):
    """The queue between inference and training."""

    queue_capacity: int | None = option(
        None, "Unrolls that may wait for training; actions wait when it is full. None: one batch.", at_least=1
    )
    passes: int = option(
        1,
        "Times that each unroll is trained on; the paper has 1. V-trace corrects for what the policy has "
        "moved meanwhile.",
        at_least=1,
    )

    def experience(self) -> FifoConfig:
        """What these options ask for."""
        return FifoConfig(self.queue_capacity, self.passes)


@dataclasses.dataclass(frozen=True)
class ReplayOptions(Options):
    """Prioritized replay."""

    priority_exponent: float = option(
        0.9,
        "Unrolls are drawn in proportion to their priority to this power; 0: all alike. The paper has 0.9.",
        at_least=0,
    )
    importance_sampling_exponent: float = option(
        0.6,
        "Exponent of the importance weights that make up for the priorities; 0: no weights. The paper has "
        "0.6.",
        at_least=0,
        at_most=1,
    )
    replay_buffer_size: int = option(
        10_000, "Most unrolls in replay. The paper has 100,000, which takes a big machine.", at_least=1
    )
    replay_buffer_min_size: int = option(
        500, "Unrolls in replay before training starts; the paper has 5,000.", at_least=1
    )
    replay_ratio: float = option(
        0.75,
        "Times that an unroll is trained on, on average: unrolls drawn for each that comes in. The paper has "
        "0.75.",
        above=0,
    )
    replay_max_bytes: int | None = option(
        None,
        "Memory that replay may take, in bytes; None: half of the machine's memory.",
        at_least=1,
        is_plumbing=True,
    )
    replay_compression: str = option(
        "zstd",
        "How unrolls in replay are compressed; zstd or none.",
        choices=("zstd", "none"),
        is_plumbing=True,
    )
    checkpoint_replay: bool = option(
        False,
        "Whether checkpoints hold the unrolls in replay; without them a resumed run fills it again.",
        is_plumbing=True,
    )

    def validate(self) -> None:
        """Checks between fields."""
        if self.replay_buffer_min_size > self.replay_buffer_size:
            raise ValueError(
                f"--replay_buffer_min_size={self.replay_buffer_min_size} is more than "
                f"--replay_buffer_size={self.replay_buffer_size}, so that training would never start; make "
                "it that many at most."
            )

    def experience(self) -> ReplayConfig:
        """What these options ask for."""
        return ReplayConfig(
            capacity=self.replay_buffer_size,
            min_size=self.replay_buffer_min_size,
            replay_ratio=self.replay_ratio,
            priority_exponent=self.priority_exponent,
            importance_sampling_exponent=self.importance_sampling_exponent,
            max_bytes=self.replay_max_bytes,
            compression=self.replay_compression,
            checkpoint=self.checkpoint_replay,
        )
