"""A bounded first-in-first-out queue of unrolls: each is trained on once (V-trace)."""

import collections
import threading

import numpy as np
import tensorflow as tf

from seed_rl.experience.base import Batch, ClosedError, Experience
from seed_rl.types import Sample, Unroll


class Fifo(Experience):
    """The queue. `insert` blocks while it is full: that is the back-pressure on inference and actors."""

    def __init__(self, batch_size: int, capacity: int | None = None):
        """Prepares an empty queue.

        Args:
          batch_size: B, unrolls in a batch.
          capacity: most unrolls waiting; None for one batch.

        Raises:
          ValueError: the capacity is less than a batch, which could never be filled.
        """
        self._batch_size = batch_size
        self._capacity = batch_size if capacity is None else capacity
        if self._capacity < batch_size:
            raise ValueError(
                f"--queue_capacity={capacity} is less than --batch_size={batch_size}, so that no batch would "
                "ever fill; raise it."
            )
        self._unrolls: collections.deque[Unroll] = collections.deque()
        self._closed = False
        self._changed = threading.Condition()

    def insert(self, unrolls: list[Unroll]) -> None:
        """Appends unrolls, one by one as there is room."""
        with self._changed:
            for unroll in unrolls:
                self._changed.wait_for(lambda: self._closed or len(self._unrolls) < self._capacity)
                if self._closed:
                    raise ClosedError
                self._unrolls.append(unroll)
                if len(self._unrolls) >= self._batch_size:
                    self._changed.notify_all()

    def sample(self) -> Batch:
        """The oldest `batch_size` unrolls."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or len(self._unrolls) >= self._batch_size)
            if self._closed:
                raise ClosedError
            unrolls = [self._unrolls.popleft() for _ in range(self._batch_size)]
            self._changed.notify_all()
        return stack(unrolls)

    def figures(self) -> dict[str, float]:
        """The number of unrolls waiting."""
        return {"queue_depth": float(len(self._unrolls))}

    def close(self) -> None:
        """Ends every wait."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()


def stack(unrolls: list[Unroll]) -> Batch:
    """Unrolls `[S, ...]` as a time-major batch `[S, B, ...]` with weights of one."""
    steps = [(u.prev_action, u.env, u.agent) for u in unrolls]
    prev_action, env, agent = tf.nest.map_structure(lambda *x: np.stack(x, axis=1), *steps)
    state = tf.nest.map_structure(lambda *x: np.stack(x), *(u.initial_state for u in unrolls))
    weight = np.ones(len(unrolls), np.float32)
    versions = np.array([u.policy_version for u in unrolls], np.int64)
    return Batch(Sample(prev_action, env, agent, state, weight), versions, None)
