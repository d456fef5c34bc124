"""Extracts the arrays from the observations that environments return, and checks them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from seed_rl.environments.specs import ObservationLeaf
from seed_rl.environments.words import hash_words


class LeafReader:
    """Reads one array of several environments' observations at once, because it runs at every step."""

    def __init__(self, leaf: ObservationLeaf):
        """Prepares for a leaf of the observations."""
        self._leaf = leaf
        self._expected = leaf.spec.unpacked
        self._shape, self._dtype = self._expected.shape, np.dtype(self._expected.dtype)
        self._is_bare = not leaf.path and not leaf.is_text
        self._goes_as_it_is = leaf.spec.bits is None and leaf.start is None

    def __call__(self, observations: Sequence[Any], index: int = 0) -> np.ndarray:
        """The arrays `[N, ...]` as they go over the wire, to be assigned to a buffer of the leaf's dtype.

        Args:
          observations: of N environments.
          index: of the environment that an error names, if N is 1.

        Raises:
          ValueError: an array is missing, does not match the observation space or contains NaN; one sentence.
        """
        arrays = observations if self._is_bare else [self._find(one, index) for one in observations]
        try:
            array = np.array(arrays)
        except ValueError as error:
            raise self._missing(index, error) from error
        dtype = array.dtype
        if array.shape[1:] != self._shape or not (dtype == self._dtype or self._holds(dtype)):
            raise ValueError(
                f"Environment {index} returned {dtype}{list(array.shape[1:])} for '{self._name}', but "
                f"its observation space says {self._expected}; fix the space or the observations that the "
                "environment returns."
            )
        if dtype.kind == "f" and np.count_nonzero(np.isnan(array)):
            raise ValueError(f"Environment {index} returned NaN for '{self._name}'.")
        if self._goes_as_it_is:
            return array
        if self._leaf.spec.bits is not None:
            return np.packbits(array.reshape(len(array), -1), axis=1)
        return array - self._leaf.start

    def _find(self, observation: Any, index: int) -> Any:
        try:
            for key in self._leaf.path:
                observation = observation[key]
            return hash_words(observation) if self._leaf.is_text else observation
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise self._missing(index, error) from error

    def _missing(self, index: int, error: Exception) -> ValueError:
        return ValueError(f"Environment {index} returned no array for '{self._name}': {error!r}.")

    def _holds(self, dtype: np.dtype) -> bool:
        """True if our dtype can hold values of `dtype`: it is the same kind of number, or a wider kind."""
        return np.can_cast(dtype, self._dtype, "same_kind")

    @property
    def _name(self) -> str:
        return self._leaf.name or "observation"
