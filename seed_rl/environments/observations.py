"""Observation spaces: their specs, and the arrays of observations, read and checked.

On the wire, discrete observations are int32 and count from 0, whatever the space's `start`. float64 becomes
float32. Arrays of bools are packed, eight to a byte. Text becomes the numbers of its words (`hash_words`).
Every other array keeps its dtype. Dict spaces become dicts; Tuple spaces become dicts with the keys '0',
'1', ….
"""

import math
import re
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from seed_rl.environments.actions import integer_spec, shown, whole_numbers
from seed_rl.environments.failures import Fault, described
from seed_rl.types import LARGEST_INPUT, ArraySpec, Nest

NUM_WORDS = 16
VOCABULARY_SIZE = 1000

# The largest number that is less than LARGEST_INPUT after rounding to float32.
LARGEST = float(np.nextafter(np.float32(LARGEST_INPUT), np.float32(0)))
MUST_BE_FINITE = f"it must be finite and less than {LARGEST_INPUT:g} in absolute value"


def hash_words(text: str) -> np.ndarray:
    """The first 16 words as numbers 1 to 999, then zeros: int32 `[16]`.

    Letter case and punctuation are ignored. A word's number is the same in every process and version; two
    words may share a number.
    """
    numbers = np.zeros(NUM_WORDS, np.int32)
    words = re.findall(r"\w+", text.lower())[:NUM_WORDS]
    numbers[: len(words)] = [zlib.crc32(word.encode()) % (VOCABULARY_SIZE - 1) + 1 for word in words]
    return numbers


def observation_spec(space: spaces.Space) -> Nest:
    """The nest of ArraySpec for an observation space, without the arrays that have no element.

    Raises:
      ValueError: the space, or one inside it, is of a kind that is not supported, or no array has an element.
    """
    spec: dict[str, Nest] = {}
    for leaf in observation_leaves(space):
        if not leaf.path:
            return leaf.spec
        *outer, last = map(str, leaf.path)
        inner = spec
        for name in outer:
            inner = inner.setdefault(name, {})
        inner[last] = leaf.spec
    if not spec:
        raise ValueError(
            f"The observation space {shown(space)} has no element; give agents something to see, if only the "
            "constant of Box(0, 0, (1,))."
        )
    return spec


def observation_leaves(space: spaces.Space) -> list["ObservationLeaf"]:
    """The arrays of an observation with elements, in the order of `flatten_spec(observation_spec(space))`.

    Raises:
      ValueError: the space, or one inside it, is of a kind that is not supported.
    """
    return [leaf for leaf in _walk(space, ()) if leaf.spec.size]


def _walk(space: spaces.Space, path: tuple[Any, ...]) -> Iterator["ObservationLeaf"]:
    if not isinstance(space, spaces.Dict | spaces.Tuple):
        yield ObservationLeaf(space, path)
        return
    items = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
    children: list[tuple[Any, spaces.Space]] = sorted(items, key=lambda item: str(item[0]))
    if not children or any("/" in str(key) or str(key) == "" for key, _ in children):
        raise ValueError(
            f"The observation space {shown(space)} is not supported; a Dict or Tuple space needs at least "
            "one entry, and names that are not empty and contain no '/'."
        )
    for key, child in children:
        yield from _walk(child, (*path, key))


class ObservationLeaf:
    """One array of an observation, and its reader, which reads those of several environments at once.

    Attributes:
      name: as `flatten_spec` names it: keys joined by '/', '' for a bare array.
      path: the keys and indices that lead to it in the environment's own observation.
      spec: of the array on the wire.
      array: its shape and dtype in an environment.
      start: int `[*spec.shape]`, subtracted from the environment's values; None when they start at 0.
      is_text: whether the environment's value is a string.
      is_bare: whether observations are nothing but this array.
    """

    def __init__(self, space: spaces.Space, path: tuple[Any, ...]):
        self.name, self.path, self.is_text = "/".join(map(str, path)), path, _is_text(space)
        self.spec, self.start = _array_spec(space)
        self.array = self.spec.unpacked
        self._shape, self._dtype = self.array.shape, np.dtype(self.array.dtype)
        self.is_bare = not path and not self.is_text
        self._goes_as_it_is = self.spec.bits is None and self.start is None
        self._limits = None if self.is_text else _limits(space, self._dtype)
        # Most images: every value of their dtype is in their space.
        self._all_is_allowed = self._limits is None or _are_those_of(self._dtype, *self._limits)

    def __call__(self, observations: Sequence[Any]) -> np.ndarray:
        """The arrays `[N, ...]` of N environments as they go over the wire, for a buffer of the leaf's dtype.

        Raises:
          Fault: an array is missing or does not match the observation space, or a number is too large or NaN.
        """
        arrays = observations if self.is_bare else [self._find(one) for one in observations]
        try:
            array = np.array(arrays)
        except (ValueError, TypeError, OverflowError) as error:
            raise self._missing(error) from error
        return self.checked(array)

    def of_batch(self, observation: Any, size: int) -> np.ndarray:
        """The arrays `[N, ...]` in a vector environment's observation of N = `size` environments, likewise.

        They may share the memory of that observation.

        Raises:
          Fault: as above, or there are more or fewer arrays.
        """
        try:
            arrays = self._at(observation)
            array = np.array([hash_words(text) for text in arrays]) if self.is_text else np.asarray(arrays)
        except Exception as error:  # Whatever the environment's own classes raise.
            raise self._missing(error) from error
        if array.ndim == 0 or len(array) != size:
            raise Fault(f"returned {array.dtype}{list(array.shape)} for {self._shown} of {size} environments")
        return self.checked(array)

    def checked(self, array: np.ndarray) -> np.ndarray:
        """The arrays `[N, ...]` as they go over the wire, likewise."""
        if self._dtype == np.bool_ and array.dtype.kind in "iuf" and ((array == 0) | (array == 1)).all():
            array = array.astype(np.bool_)
        dtype = array.dtype
        # Ours may hold numbers of the same kind, or of one that it includes.
        fits = dtype == self._dtype or np.can_cast(dtype, self._dtype, "same_kind")
        if array.shape[1:] != self._shape or not fits:
            raise Fault(
                f"returned {dtype}{list(array.shape[1:])} for {self._shown}, but its observation space says "
                f"{self.array}; fix the space or the observation"
            )
        if self._limits is not None and not (self._all_is_allowed and dtype == self._dtype) and array.size:
            self._check(array, *self._limits)
        if self._goes_as_it_is:
            return array
        if self.spec.bits is not None:
            return np.packbits(array.reshape(len(array), -1), axis=1)
        assert self.start is not None
        return array.astype(np.int64) - self.start

    def _check(self, array: np.ndarray, low: Any, high: Any) -> None:
        # Quick: a small sum of squares, rounding included. False for NaN.
        if array.dtype.kind == "f" and float(np.vdot(array, array)) <= 0.9 * high * high:
            return
        if np.ndim(low) == 0 and array.min() >= low and array.max() <= high:  # False for NaN.
            return
        outside = np.argwhere(~((array >= low) & (array <= high)))
        if not len(outside):
            return
        value, place = array[tuple(outside[0])], tuple(outside[0][1:])
        at = f" at {[int(index) for index in place]}" if place else ""
        if abs(float(value)) <= LARGEST and self._dtype.kind != "f":
            lowest, highest = (limit if np.ndim(limit) == 0 else limit[place] for limit in (low, high))
            rule = f"its observation space says {lowest} to {highest}; fix the space or the observation"
        else:
            rule = MUST_BE_FINITE
        raise Fault(f"returned {value} for {self._shown}{at}, but {rule}")

    def _at(self, observation: Any) -> Any:
        for key in self.path:
            observation = observation[key]
        return observation

    def _find(self, observation: Any) -> Any:
        try:
            found = self._at(observation)
            return hash_words(found) if self.is_text else found
        except Exception as error:  # Whatever the environment's own classes raise.
            raise self._missing(error) from error

    def _missing(self, error: Exception) -> Fault:
        return Fault(f"returned no array for {self._shown} ({described(error)})")

    @property
    def _shown(self) -> str:
        return f"the observation '{self.name}'" if self.name else "the observation"


def _array_spec(space: spaces.Space) -> tuple[ArraySpec, np.ndarray | None]:
    """The spec of a space that is one array, and the start that is subtracted from its values."""
    if isinstance(space, spaces.Box) and space.dtype.kind in "biuf":
        if space.dtype == np.bool_ and math.prod(space.shape) > 1:
            return ArraySpec.packed(space.shape), None
        is_wide = space.dtype.kind == "f" and space.dtype.itemsize > 4
        return ArraySpec(space.shape, "float32" if is_wide else space.dtype.name), None
    if (numbers := whole_numbers(space)) is not None:
        start, num_values = numbers
        dtype = space.dtype.name if isinstance(space, spaces.MultiBinary) else "int32"
        return integer_spec(num_values, dtype), start if start.any() else None
    if _is_text(space):
        return integer_spec(np.full(NUM_WORDS, VOCABULARY_SIZE)), None
    raise ValueError(
        f"The observation space {shown(space)} is not supported; use Box, Discrete, MultiDiscrete, "
        "MultiBinary, Text, or Dict and Tuple of these."
    )


def _is_text(space: spaces.Space) -> bool:
    """Also True for spaces of strings that other packages define."""
    return getattr(getattr(space, "dtype", None), "kind", "") == "U"


def _limits(space: spaces.Space, dtype: np.dtype) -> tuple[Any, Any] | None:
    """The least and greatest values that a space allows: numbers, or arrays of its shape; None for bools.

    Floats are only limited by the range of a network's input: valid environments overstep a Box's bounds.
    """
    if dtype.kind == "f":
        most = np.float64(min(LARGEST, float(np.finfo(dtype).max)))  # A float would become a smaller dtype.
        return -most, most
    if dtype.kind not in "iu":
        return None
    if (numbers := whole_numbers(space)) is not None:
        low, num_values = numbers
        high = low + num_values - 1
    else:
        assert isinstance(space, spaces.Box)
        low, high = space.low, space.high
        if dtype.itemsize == 8:
            low = np.maximum(low, 0 if dtype.kind == "u" else -int(LARGEST))
            high = np.minimum(high, int(LARGEST))
    if low.size and (low == low.flat[0]).all() and (high == high.flat[0]).all():
        return int(low.flat[0]), int(high.flat[0])
    return low, high


def _are_those_of(dtype: np.dtype, low: Any, high: Any) -> bool:
    """Whether limits are the least and greatest values of an integer dtype."""
    return (
        dtype.kind in "iu" and np.ndim(low) == 0 and (low, high) == (np.iinfo(dtype).min, np.iinfo(dtype).max)
    )
