"""Keeps the replay ratio: the one that is ahead, inference or training, waits for the other."""


class RateLimiter:
    """Says whether an unroll may come in and whether a batch may be drawn. Not thread-safe.

    Nothing is drawn before `min_size` unrolls are there, and until then nothing counts. From then on the
    number of unrolls drawn stays within two batches below `replay_ratio` times the number that came in. One
    of the two directions is always open.

    Attributes:
      started: whether the minimum size has been reached.
    """

    def __init__(self, replay_ratio: float, batch_size: int, min_size: int):
        """Starts with nothing counted.

        Args:
          replay_ratio: unrolls drawn for each that comes in, above 0.
          batch_size: unrolls in a batch.
          min_size: unrolls before the first batch.
        """
        self._ratio, self._batch_size, self._min_size = replay_ratio, batch_size, min_size
        self.started = False
        self._inserted = self._sampled = 0

    @property
    def measured_ratio(self) -> float | None:
        """Unrolls drawn for each that came in, since the first batch could be drawn; None before that."""
        return self._sampled / self._inserted if self._inserted else None

    def may_insert(self) -> bool:
        """False while training has to catch up."""
        return not self.started or self._credit() < 2 * self._batch_size

    def may_sample(self) -> bool:
        """False while inference has to catch up."""
        return self.started and self._credit() >= self._batch_size

    def inserted(self, size: int) -> None:
        """An unroll came in, and there are `size` now."""
        self._inserted += self.started
        self.started = self.started or size >= self._min_size

    def restored(self, size: int) -> None:
        """There are `size` unrolls from the start."""
        self.started = size >= self._min_size

    def sampled(self) -> None:
        """A batch was drawn."""
        self._sampled += self._batch_size

    def _credit(self) -> float:
        return self._inserted * self._ratio - self._sampled
