"""The reference for replay: a ring of plain NumPy arrays that stores every sequence in full."""

from typing import Any

import numpy as np
import optree

from seed_rl.experience.base import Batch, Experience
from seed_rl.experience.priorities import SumTree
from seed_rl.experience.rate_limiter import RateLimiter
from seed_rl.types import Sample, Unroll


class NumpyRing(Experience):
    """Prioritized replay without compression or sharing: one array `[capacity, S, ...]` per leaf."""

    def __init__(self, capacity: int, batch_size: int, replay_ratio: float):
        """Creates an empty ring; the arrays are allocated at the first unroll."""
        super().__init__()
        self._capacity, self._batch_size = capacity, batch_size
        self._tree, self._limiter = SumTree(capacity), RateLimiter(replay_ratio, batch_size, 1)
        self._random = np.random.default_rng(0)
        self._rows: Any = None
        self._next = 0

    def insert(self, unrolls: list[Unroll]) -> None:
        """Copies each unroll into a row."""
        for unroll in unrolls:
            steps = unroll.prev_action, unroll.env, unroll.agent, unroll.policy_version
            parts = (*steps, unroll.initial_state)
            if self._rows is None:
                self._rows = optree.tree_map(lambda x: np.zeros((self._capacity, *x.shape), x.dtype), parts)
            with self._changed:
                self._wait_for(self._limiter.may_insert)
                index = self._next % self._capacity
            optree.tree_map(lambda rows, part, index=index: rows.__setitem__(index, part), self._rows, parts)
            with self._changed:
                self._tree.set(np.array([index]), self._random.random(1))
                self._next += 1
                self._limiter.inserted(self._next)
                self._changed.notify_all()

    def batch_ready(self) -> bool:
        """Whether the replay ratio allows a batch."""
        with self._changed:
            return self._limiter.may_sample()

    def sample(self) -> Batch:
        """Draws a batch, gathers its rows and makes them time-major."""
        with self._changed:
            self._wait_for(self._limiter.may_sample)
            indices = self._tree.sample(self._batch_size, self._random)
            self._limiter.sampled()
            self._changed.notify_all()
        *steps, state = self._rows
        *steps, versions = optree.tree_map(
            lambda rows: np.stack([rows[index] for index in indices], axis=1), tuple(steps)
        )
        state = optree.tree_map(lambda rows: rows[indices], state)
        weight = np.ones(self._batch_size, np.float32)
        return Batch(Sample(*steps, state, weight), versions, indices)

    def update_priorities(self, handle: Any, priorities: np.ndarray) -> None:
        """Sets the priorities of the rows of a batch."""
        with self._changed:
            self._tree.set(handle, priorities)

    def figures(self) -> dict[str, float]:
        """The ring has no figures."""
        return {}
