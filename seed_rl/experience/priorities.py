"""Prioritized sampling (Schaul et al., 2016): probabilities, importance weights, and random draws."""

from typing import Any

import numpy as np

# Above 0, so that everything can be drawn.
_LOWEST_PRIORITY = 1e-6

# Indices that are drawn uniformly beyond those expected to be needed.
_SPARE = 8


class SumTree:
    """Priorities of `capacity` indices, all 0 at first, which are drawn in proportion (appendix B.2.1).

    Vectorised over indices; not thread-safe.

    Node i has the children 2i and 2i + 1; the leaves are the last level. A parent is always computed from its
    children, never by a difference, so rounding errors do not build up.
    """

    def __init__(self, capacity: int):
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


class EqualPriorities:
    """Takes the place of a `SumTree` where all priorities are 0 or 1: a byte for each index."""

    def __init__(self, capacity: int):
        self.total = 0
        self._is_1 = np.zeros(capacity, bool)
        self._end = 0  # From here on, all priorities are 0.

    @staticmethod
    def bytes_for(capacity: int) -> int:
        """See `SumTree.bytes_for`."""
        return capacity

    def get(self, indices: np.ndarray) -> np.ndarray:
        """See `SumTree.get`."""
        return self._is_1[indices].astype(np.float64)

    def set(self, indices: np.ndarray, priorities: np.ndarray) -> None:
        """Sets priorities `[K]` of indices `[K]` that are all different."""
        if len(indices):
            self.total += int(np.count_nonzero(priorities) - np.count_nonzero(self._is_1[indices]))
            self._is_1[indices] = priorities
            self._end = max(self._end, int(indices.max()) + 1)

    def sample(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Draws among all indices below the end, and again for those of priority 0: indices `[count]`."""
        found = np.empty(0, np.int64)
        while (missing := count - len(found)) > 0:
            some = rng.integers(self._end, size=_SPARE + missing * self._end // self.total)
            found = np.concatenate([found, some[self._is_1[some]][:missing]])
        return found


def importance_weights(probabilities: np.ndarray, exponent: float) -> np.ndarray:
    """`(1 / P)^beta` divided by the largest of them, float32 `[B]`: the N of (N P)^-beta cancels out."""
    return ((probabilities.min() / probabilities) ** exponent).astype(np.float32)


class Draws:
    """Draws indices in proportion to priority^alpha; what is new has the maximum so far (algorithm 1).

    An index may be drawn if its scaled priority is above 0. Not thread-safe.

    Attributes:
      count: how many may be drawn.
      highest: the maximum priority so far, unscaled.
    """

    def __init__(self, tree: SumTree | EqualPriorities, priority_exponent: float, importance_exponent: float):
        """Starts with an empty `tree`, which keeps the scaled priorities."""
        self._tree, self._alpha, self._beta = tree, priority_exponent, importance_exponent
        self.count, self.highest = 0, 1.0

    def scaled(self, priorities: Any) -> Any:
        """`priority^alpha` (equation 1), above 0 for an exponent of any size."""
        return np.maximum(priorities, _LOWEST_PRIORITY) ** self._alpha

    def enter(self, indices: np.ndarray, may_be_drawn: np.ndarray) -> None:
        """Gives indices `[K]`, all different, to something new, with the maximum priority so far.

        Where `may_be_drawn` `[K]` is false, there is nothing new, and what was there is gone.
        """
        self.put(indices, may_be_drawn * self.scaled(self.highest) if self._alpha else may_be_drawn)

    def put(self, indices: np.ndarray, scaled_priorities: np.ndarray) -> None:
        """Sets scaled priorities `[K]` of indices `[K]` that are all different; 0: nothing is there."""
        before = np.count_nonzero(self._tree.get(indices))
        self._tree.set(indices, scaled_priorities)
        self.count += int(np.count_nonzero(scaled_priorities) - before)

    def draw(self, batch_size: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Draws indices int64 `[B]`, of which one may occur twice; also their weights float32 `[B]`.

        There must be one that may be drawn.
        """
        indices = self._tree.sample(batch_size, random)
        return indices, importance_weights(self._tree.get(indices) / self._tree.total, self._beta)

    def update(self, indices: np.ndarray, priorities: np.ndarray) -> None:
        """Sets the priorities `[K]` of indices `[K]` that may be drawn."""
        if len(indices) and self._alpha:
            self._tree.set(indices, self.scaled(priorities))
            self.highest = max(self.highest, float(priorities.max()))

    def get(self, indices: np.ndarray) -> np.ndarray:
        """Scaled priorities float64 `[K]`, 0 for what may not be drawn."""
        return self._tree.get(indices)


def _depth(capacity: int) -> int:
    """Levels below the root."""
    return max(capacity - 1, 0).bit_length()
