"""Keeps the replay ratio: whichever of inference and training is ahead waits for the other."""

import math


class RateLimiter:
    """Decides whether an unroll may be added and whether a batch may be drawn. Not thread-safe.

    Nothing is drawn before there are `min_size` unrolls, and nothing is counted until then. From then on, the
    number of unrolls drawn stays within two batches below `replay_ratio` times the number added. At any time,
    at least one of the two is allowed.

    Attributes:
      started: whether the minimum size has been reached.
    """

    def __init__(self, replay_ratio: float, batch_size: int, min_size: int):
        """Starts with all counts at 0.

        Args:
          replay_ratio: unrolls drawn for each one added, above 0.
          batch_size: unrolls in a batch.
          min_size: unrolls needed before the first batch.
        """
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
        """How many unrolls may be added to `size` at once; at least 1 if `may_insert`."""
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
