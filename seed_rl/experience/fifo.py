"""A bounded first-in-first-out queue of unrolls: each is trained on once, or a few times (V-trace)."""

import collections
import threading
from typing import NamedTuple

import numpy as np
import optree

from seed_rl.experience.base import Batch, ClosedError, Experience
from seed_rl.types import Sample, Unroll


class _Entry(NamedTuple):
    unroll: Unroll
    passes_left: int


class Fifo(Experience):
    """The queue. `insert` blocks while it is full, which puts back-pressure on inference and actors.

    With more than one pass, an unroll that was trained on goes back to the end of the queue.
    """

    def __init__(self, batch_size: int, capacity: int | None = None, passes: int = 1):
        """Prepares an empty queue.

        Args:
          batch_size: B, unrolls in a batch.
          capacity: most unrolls that may wait for their first pass; None for one batch.
          passes: how many times each unroll is trained on.

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
        self._new = 0  # Entries that wait for their first pass.
        self._closed = False
        self._changed = threading.Condition()

    def insert(self, unrolls: list[Unroll]) -> None:
        """Appends unrolls one at a time, as soon as there is room."""
        with self._changed:
            for unroll in unrolls:
                self._changed.wait_for(lambda: self._closed or self._new < self._capacity)
                if self._closed:
                    raise ClosedError
                self._entries.append(_Entry(unroll, self._passes))
                self._new += 1
                if len(self._entries) >= self._batch_size:
                    self._changed.notify_all()

    def sample(self) -> Batch:
        """Takes the first `batch_size` unrolls from the queue."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or len(self._entries) >= self._batch_size)
            if self._closed:
                raise ClosedError
            taken = [self._entries.popleft() for _ in range(self._batch_size)]
            self._new -= sum(entry.passes_left == self._passes for entry in taken)
            again = (_Entry(unroll, left - 1) for unroll, left in taken if left > 1)
            self._entries.extend(again)
            self._changed.notify_all()
        return stack([entry.unroll for entry in taken])

    def batch_ready(self) -> bool:
        """Whether the queue contains a whole batch."""
        with self._changed:
            return len(self._entries) >= self._batch_size

    def figures(self) -> dict[str, float]:
        """The number of unrolls that wait for their first pass."""
        return {"queue_depth": float(self._new)}

    def close(self) -> None:
        """Ends every wait."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()


def stack(unrolls: list[Unroll]) -> Batch:
    """Stacks unrolls `[S, ...]` into a time-major batch `[S, B, ...]` with weights of one."""
    steps = [(u.prev_action, u.env, u.agent) for u in unrolls]
    prev_action, env, agent = optree.tree_map(lambda *x: np.stack(x, axis=1), *steps)
    state = optree.tree_map(lambda *x: np.stack(x), *(u.initial_state for u in unrolls))
    weight = np.ones(len(unrolls), np.float32)
    versions = np.array([u.policy_version for u in unrolls], np.int64)
    return Batch(Sample(prev_action, env, agent, state, weight), versions, None)
