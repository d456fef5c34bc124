"""How priorities become probabilities and weights (Schaul et al., 2016), and what is drawn how often."""

import abc
from typing import Any, NamedTuple

import numpy as np

from seed_rl.experience.sum_tree import SumTree

# Above 0, so that everything can be drawn.
_LOWEST_PRIORITY = 1e-6

# Indices that are drawn uniformly beyond those expected to be needed.
_SPARE = 8


def scaled(priorities: Any, exponent: float) -> Any:
    """`priority^alpha` (equation 1), above 0 for an exponent of any size."""
    return np.maximum(priorities, _LOWEST_PRIORITY) ** exponent


def importance_weights(probabilities: np.ndarray, exponent: float) -> np.ndarray:
    """`(1 / P)^beta` divided by the largest of them, float32 `[B]`: the N of (N P)^-beta cancels out."""
    return ((probabilities.min() / probabilities) ** exponent).astype(np.float32)


class Drawn(NamedTuple):
    """Indices int64 `[B]` and their importance weights float32 `[B]`."""

    indices: np.ndarray
    weights: np.ndarray


class Draws(abc.ABC):
    """Which of `capacity` indices may be drawn, and how often each is. Not thread-safe.

    Attributes:
      count: how many may be drawn.
      highest: the maximum priority so far, unscaled.
    """

    def __init__(self) -> None:
        """Starts with no index that may be drawn."""
        self.count = 0
        self.highest = 1.0

    @property
    @abc.abstractmethod
    def nbytes(self) -> int:
        """Memory, in bytes."""

    @abc.abstractmethod
    def enter(self, indices: np.ndarray, may_be_drawn: np.ndarray) -> None:
        """Gives indices `[K]` to something new, with the maximum priority so far.

        Args:
          indices: all different.
          may_be_drawn: bool `[K]`; false: there is nothing new, and what was there is gone.
        """

    @abc.abstractmethod
    def draw(self, batch_size: int, random: np.random.Generator) -> Drawn:
        """Draws B indices; one may occur twice. There must be one that may be drawn."""

    @abc.abstractmethod
    def update(self, indices: np.ndarray, priorities: np.ndarray) -> None:
        """Sets the priorities `[K]` of indices `[K]` that may be drawn."""

    @abc.abstractmethod
    def get(self, indices: np.ndarray) -> np.ndarray:
        """Scaled priorities float64 `[K]`, 0 for what may not be drawn."""

    @abc.abstractmethod
    def restore(self, indices: np.ndarray, scaled_priorities: np.ndarray) -> None:
        """Sets what `get` returned, of indices that could not be drawn before."""


class PrioritizedDraws(Draws):
    """Draws in proportion to priority^alpha; what is new has the maximum so far (algorithm 1)."""

    def __init__(self, capacity: int, priority_exponent: float, importance_sampling_exponent: float):
        """Starts with no index that may be drawn."""
        super().__init__()
        self._tree = SumTree(capacity)
        self._alpha, self._beta = priority_exponent, importance_sampling_exponent

    @property
    def nbytes(self) -> int:
        """Memory of the tree, in bytes."""
        return self._tree.nbytes

    def enter(self, indices: np.ndarray, may_be_drawn: np.ndarray) -> None:
        """See `Draws.enter`."""
        self.count += int(may_be_drawn.sum()) - int(np.count_nonzero(self._tree.get(indices)))
        self._tree.set(indices, may_be_drawn * scaled(self.highest, self._alpha))

    def draw(self, batch_size: int, random: np.random.Generator) -> Drawn:
        """Draws one index from each of B equal parts of the total; see `Draws.draw`."""
        indices = self._tree.sample(batch_size, random)
        return Drawn(indices, importance_weights(self._tree.get(indices) / self._tree.total, self._beta))

    def update(self, indices: np.ndarray, priorities: np.ndarray) -> None:
        """See `Draws.update`."""
        if len(indices):
            self._tree.set(indices, scaled(priorities, self._alpha))
            self.highest = max(self.highest, float(priorities.max()))

    def get(self, indices: np.ndarray) -> np.ndarray:
        """See `Draws.get`."""
        return self._tree.get(indices)

    def restore(self, indices: np.ndarray, scaled_priorities: np.ndarray) -> None:
        """See `Draws.restore`."""
        self.count += int(np.count_nonzero(scaled_priorities))
        self._tree.set(indices, scaled_priorities)


class UniformDraws(Draws):
    """Draws all that may be drawn equally often; weights are 1, and priorities are ignored."""

    def __init__(self, capacity: int):
        """Starts with no index that may be drawn."""
        super().__init__()
        self._may_be_drawn = np.zeros(capacity, bool)
        self._end = 0  # No index from here on may be drawn.

    @property
    def nbytes(self) -> int:
        """Memory, in bytes."""
        return self._may_be_drawn.nbytes

    def enter(self, indices: np.ndarray, may_be_drawn: np.ndarray) -> None:
        """See `Draws.enter`."""
        if len(indices):
            self.count += int(may_be_drawn.sum()) - int(self._may_be_drawn[indices].sum())
            self._may_be_drawn[indices] = may_be_drawn
            self._end = max(self._end, int(indices.max()) + 1)

    def draw(self, batch_size: int, random: np.random.Generator) -> Drawn:
        """Draws among all indices below the end, and again for those that may not be drawn."""
        found = np.empty(0, np.int64)
        while (missing := batch_size - len(found)) > 0:
            some = random.integers(self._end, size=_SPARE + missing * self._end // self.count)
            found = np.concatenate([found, some[self._may_be_drawn[some]][:missing]])
        return Drawn(found, np.ones(batch_size, np.float32))

    def update(self, indices: np.ndarray, priorities: np.ndarray) -> None:
        """Does nothing."""

    def get(self, indices: np.ndarray) -> np.ndarray:
        """1 for what may be drawn, else 0; see `Draws.get`."""
        return self._may_be_drawn[indices].astype(np.float64)

    def restore(self, indices: np.ndarray, scaled_priorities: np.ndarray) -> None:
        """See `Draws.restore`."""
        self.enter(indices, scaled_priorities > 0)
