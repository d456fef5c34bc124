"""Takes the arrays out of what an environment returned, and checks them."""

from typing import Any

import numpy as np

from seed_rl.environments.specs import ObservationLeaf
from seed_rl.environments.words import hash_words


class LeafReader:
    """Reads one array of an environment's observations. Called for every step: what it needs is at hand."""

    def __init__(self, index: int, leaf: ObservationLeaf):
        """Prepares for a leaf of the environment `index` (for messages)."""
        self._index, self._leaf = index, leaf
        self._expected = leaf.spec.unpacked
        self._shape, self._dtype = self._expected.shape, np.dtype(self._expected.dtype)
        self._is_bare = not leaf.path and not leaf.is_text
        self._goes_as_it_is = leaf.spec.bits is None and leaf.start is None

    def __call__(self, observation: Any) -> np.ndarray:
        """The array as it goes over the wire, ready to be assigned to a buffer of the leaf's dtype.

        Raises:
          ValueError: one sentence; the array is missing, does not fit the observation space or has a NaN.
        """
        is_array = self._is_bare and type(observation) is np.ndarray
        array = observation if is_array else self._find(observation)
        dtype = array.dtype
        if array.shape != self._shape or not (dtype == self._dtype or self._holds(dtype)):
            raise ValueError(
                f"Environment {self._index} returned {dtype}{list(array.shape)} for '{self._name}', but "
                f"its observation space says {self._expected}; correct the environment's space or what it "
                "returns."
            )
        if dtype.kind == "f" and np.count_nonzero(np.isnan(array)):
            raise ValueError(f"Environment {self._index} returned NaN for '{self._name}'.")
        if self._goes_as_it_is:
            return array
        return np.packbits(array) if self._leaf.spec.bits is not None else array - self._leaf.start

    def _find(self, observation: Any) -> np.ndarray:
        try:
            for key in self._leaf.path:
                observation = observation[key]
            return hash_words(observation) if self._leaf.is_text else np.asarray(observation)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(
                f"Environment {self._index} returned no array for '{self._name}': {error!r}."
            ) from error

    def _holds(self, dtype: np.dtype) -> bool:
        """True if values of `dtype` may be stored as ours: the same kind, or a wider kind, of number."""
        return np.can_cast(dtype, self._dtype, "same_kind")

    @property
    def _name(self) -> str:
        return self._leaf.name or "observation"
