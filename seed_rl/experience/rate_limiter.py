"""Keeps the replay ratio: whichever of inference and training is ahead waits for the other."""

import abc
import math
from collections.abc import Callable

import numpy as np

from seed_rl.experience import replay_file
from seed_rl.experience.base import Batch, Experience, ReplaySettings, Setup
from seed_rl.experience.memory import machine_memory, replay_limit


class RateLimiter:
    """Decides whether an unroll may be added and whether a batch may be drawn. Not thread-safe.

    Nothing is drawn before there are `min_size` unrolls, and nothing is counted until then. From then on, the
    number of unrolls drawn stays within two batches below `replay_ratio` times the number added. At any time,
    at least one of the two is allowed.

    Attributes:
      started: whether the minimum size has been reached.
    """

    def __init__(self, replay_ratio: float, batch_size: int, min_size: int):
        """Starts with all counts at 0; `replay_ratio` is how many unrolls are drawn for each one added."""
        self._ratio, self._batch_size, self._min_size = replay_ratio, batch_size, min_size
        self.started = False
        self._inserted = self._sampled = 0

    @property
    def measured_ratio(self) -> float | None:
        """Unrolls drawn for each one added, since the first batch could be drawn; None before that."""
        return self._sampled / self._inserted if self._inserted else None

    def may_insert(self) -> bool:
        """False while training has to catch up."""
        return not self.started or self._credit() < 2 * self._batch_size

    def may_sample(self) -> bool:
        """False while inference has to catch up."""
        return self.started and self._credit() >= self._batch_size

    def room(self, size: int) -> int:
        """Number of unrolls that may be added to `size` at once; at least 1 if `may_insert`."""
        if not self.started:
            return max(1, self._min_size - size)
        return max(0, math.ceil((2 * self._batch_size - self._credit()) / self._ratio))

    def inserted(self, size: int, count: int = 1) -> None:
        """Counts unrolls that were added, no more than there was room for; there are `size` now."""
        self._inserted += count * self.started
        self.started = self.started or size >= self._min_size

    def restored(self, size: int) -> None:
        """Records that replay starts with `size` restored unrolls."""
        self.started = size >= self._min_size

    def sampled(self) -> None:
        """Counts a batch that was drawn."""
        self._sampled += self._batch_size

    def _credit(self) -> float:
        return self._inserted * self._ratio - self._sampled


class LimitedReplay(Experience):
    """Base of every kind of replay: a limit of memory, the replay ratio, and random draws."""

    def __init__(self, config: ReplaySettings, setup: Setup):
        """Prepares.

        Raises:
          ValueError: the replay may be larger than the machine's memory.
        """
        super().__init__()
        self._config, self._setup, self.is_saved = config, setup, config.checkpoint_replay
        self._max_bytes = replay_limit(config.replay_max_bytes, machine_memory())
        self._limiter = RateLimiter(config.replay_ratio, setup.batch_size, config.replay_buffer_min_size)
        self._random = np.random.default_rng(setup.seed)

    @abc.abstractmethod
    def __len__(self) -> int:
        """Number of items in replay."""

    @property
    @abc.abstractmethod
    def nbytes(self) -> int:
        """Memory of everything in replay, in bytes."""

    def sample(self) -> Batch:
        """Draws a batch in proportion to priority^alpha (Schaul et al., 2016, equation 1).

        Its weights are (N P)^-beta divided by the largest of them (section 3.4). The same may occur twice.

        Raises:
          ClosedError: the replay was closed in the meantime.
        """
        with self._changed:
            self._wait_for(self._may_sample)
            finish = self._draw()
            self._limiter.sampled()
            self._changed.notify_all()
        return finish()

    def batch_ready(self) -> bool:
        """Whether the replay ratio allows drawing a batch."""
        with self._changed:
            return self._may_sample()

    def figures(self) -> dict[str, float]:
        """Size, memory and the replay ratio as measured since the minimum size was reached."""
        with self._changed:
            figures = {"replay_size": float(len(self)), "replay_mib": self.nbytes / 2**20}
            if (ratio := self._limiter.measured_ratio) is not None:
                figures["replay_ratio"] = ratio
        return figures

    def restore(self, path: str) -> None:
        """Loads what `save` wrote; see `Experience.restore`.

        Raises:
          DamagedError: the file is damaged; nothing of it is used.
          ValueError: the file cannot be read, or was written with other settings.
        """
        with self._changed:
            if self.is_saved and replay_file.read(path, lambda file: self._restore(path, file)):
                self._limiter.restored(len(self))

    @abc.abstractmethod
    def _draw(self) -> Callable[[], Batch]:
        """Draws a batch; what it returns makes it, and is called outside the lock."""

    @abc.abstractmethod
    def _restore(self, path: str, file: replay_file.Reader) -> bool:
        """Reads a file; true. See `restore`."""

    def _may_sample(self) -> bool:
        return len(self) > 0 and self._limiter.may_sample()
