"""A sum tree: draws indices in proportion to their priorities (Schaul et al., 2016, appendix B.2.1)."""

from typing import Any

import numpy as np


class SumTree:
    """Priorities of `capacity` indices, all 0 at first. Vectorised over indices; not thread-safe.

    Node i has the children 2i and 2i + 1; the leaves are the last level. A parent is always computed from its
    children, never by a difference, so rounding errors do not build up.
    """

    def __init__(self, capacity: int):
        """Prepares a tree.

        Args:
          capacity: number of indices, at least 1.
        """
        self.capacity = capacity
        self._depth = _depth(capacity)
        self._first_leaf = 1 << self._depth
        self._nodes = np.zeros(2 * self._first_leaf, np.float64)

    @staticmethod
    def bytes_for(capacity: int) -> int:
        """Memory of a tree for so many indices, in bytes."""
        return 16 << _depth(capacity)

    @property
    def total(self) -> float:
        """The sum of all priorities."""
        return float(self._nodes[1])

    @property
    def nbytes(self) -> int:
        """Memory of the tree, in bytes."""
        return self._nodes.nbytes

    def get(self, indices: np.ndarray) -> np.ndarray:
        """Priorities float64 `[K]` of indices `[K]`."""
        return self._nodes[self._first_leaf + indices]

    def set(self, indices: np.ndarray, priorities: np.ndarray) -> None:
        """Sets priorities `[K]` of indices `[K]`; if an index occurs twice, its last priority counts.

        Raises:
          ValueError: a priority is negative, NaN or infinite; nothing is changed.
        """
        priorities = np.asarray(priorities, np.float64)
        if not (np.isfinite(priorities) & (priorities >= 0)).all():
            raise ValueError("Priorities must be finite and at least 0.")
        nodes = self._first_leaf + np.asarray(indices, np.int64)
        self._nodes[nodes] = priorities
        # Plain numbers are several times faster for a single path.
        path: Any = int(nodes[0]) if len(nodes) == 1 else nodes
        for _ in range(self._depth):
            path = path >> 1
            self._nodes[path] = self._nodes[2 * path] + self._nodes[2 * path + 1]

    def find(self, masses: np.ndarray) -> np.ndarray:
        """For each mass `[K]` in [0, total): the index whose interval between 0 and total it falls into.

        Indices with priority 0 are never returned while the total is above 0.
        """
        masses = np.array(masses, np.float64)
        nodes = np.ones(len(masses), np.int64)
        for _ in range(self._depth):
            left = self._nodes[2 * nodes]
            # A mass that rounding has pushed past the end of its subtree must not end up in an empty one.
            right = (masses >= left) & (self._nodes[2 * nodes + 1] > 0)
            masses -= np.where(right, left, 0.0)
            nodes = 2 * nodes + right
        return nodes - self._first_leaf

    def sample(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Draws indices `[count]`, stratified: one from each of `count` equal parts of the total mass.

        Raises:
          ValueError: all priorities are 0.
        """
        if not self.total > 0:
            raise ValueError("There is nothing to draw: all priorities are 0.")
        strata = (np.arange(count) + rng.random(count)) / count
        return self.find(strata * self.total)


def _depth(capacity: int) -> int:
    """Levels below the root."""
    return max(capacity - 1, 0).bit_length()
