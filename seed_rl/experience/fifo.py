"""A bounded first-in-first-out queue of batches: each is trained on once, or a few times (V-trace)."""

import collections
import threading
from collections.abc import Callable
from typing import NamedTuple

from seed_rl.experience.base import Batch, ClosedError, Experience
from seed_rl.experience.slab_store import SlabStore
from seed_rl.experience.unroll_config import UnrollConfig
from seed_rl.types import Unroll


class _Entry(NamedTuple):
    batch: Batch
    passes_left: int


class Fifo(Experience):
    """The queue. Inference, and with it the actors, wait while it is full (back-pressure).

    Inference writes into the batches themselves (`store`), so nothing is inserted. With more than one pass, a
    batch that was trained on goes back to the end of the queue. Its memory is used again when it has left the
    queue and nobody holds its arrays any more.
    """

    def __init__(self, batch_size: int, capacity: int | None = None, passes: int = 1):
        """Prepares an empty queue.

        Args:
          batch_size: B, unrolls in a batch.
          capacity: most complete unrolls that may wait for their first pass, whether their batch is full or
            not; None for one batch.
          passes: how many times each batch is trained on.

        Raises:
          ValueError: the capacity is less than a batch, so no batch could ever be filled.
        """
        self._batch_size = batch_size
        self._capacity = batch_size if capacity is None else capacity
        self._passes = passes
        if self._capacity < batch_size:
            raise ValueError(
                f"--queue_capacity={capacity} is less than --batch_size={batch_size}, so no batch would ever "
                "fill; raise it."
            )
        self._entries: collections.deque[_Entry] = collections.deque()
        self._new = 0  # Unrolls that wait for their first pass.
        self._closed = False
        self._changed = threading.Condition()

    def store(
        self,
        num_envs: int,
        unroll: UnrollConfig,
        insert: Callable[[list[Unroll]], None] | None = None,
        num_served: int | None = None,
    ) -> SlabStore:
        """The store whose batches this queue hands out; see `Experience.store`."""
        del insert, num_served
        queued = -(-self._capacity // self._batch_size) * self._passes
        return SlabStore(num_envs, unroll, self._batch_size, self, queued)

    def add(self, completed: int, batches: list[Batch]) -> None:
        """Counts completed unrolls and appends batches, each of unrolls counted now or before."""
        with self._changed:
            self._new += completed
            self._entries.extend(_Entry(batch, self._passes) for batch in batches)
            if batches:
                self._changed.notify_all()

    def wait_for_room(self) -> None:
        """Waits until no more unrolls than the capacity wait for their first pass.

        Raises:
          ClosedError: the queue was closed in the meantime.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._new <= self._capacity)
            if self._closed:
                raise ClosedError

    def sample(self) -> Batch:
        """Takes the first batch from the queue."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or bool(self._entries))
            if self._closed:
                raise ClosedError
            batch, left = self._entries.popleft()
            if left == self._passes:
                self._new -= self._batch_size
            if left > 1:
                self._entries.append(_Entry(batch, left - 1))
            self._changed.notify_all()
        return batch

    def batch_ready(self) -> bool:
        """Whether there is a batch."""
        with self._changed:
            return bool(self._entries)

    def figures(self) -> dict[str, float]:
        """The number of unrolls that wait for their first pass; those beyond the capacity are not counted."""
        with self._changed:
            return {"queue_depth": float(min(self._new, self._capacity))}

    def close(self) -> None:
        """Ends every wait."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
