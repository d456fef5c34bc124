"""Takes apart what environments return, and checks it."""

import reprlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces

from seed_rl.environments.actions import whole_numbers
from seed_rl.environments.failures import Fault, described
from seed_rl.environments.specs import ObservationLeaf, hash_words, observation_leaves
from seed_rl.messages import one_line
from seed_rl.types import LARGEST_INPUT

# The largest number that is less than LARGEST_INPUT after rounding to float32.
LARGEST_NUMBER = float(np.nextafter(np.float32(LARGEST_INPUT), np.float32(0)))

# Levels of an info dict that are read: its entries, and those of `metrics`.
INFO_DEPTH = 2

_MUST_BE_FINITE = f"it must be finite and less than {LARGEST_INPUT:g} in absolute value"
_SEQUENCES = (tuple, list)
_FLAGS, _DICTS = frozenset((bool, np.bool_)), frozenset((dict,))


def leaf_readers(space: gymnasium.Space) -> list["LeafReader"]:
    """A reader for each array of an observation space, in the order of `flatten_like`."""
    return [LeafReader(leaf, space) for leaf in observation_leaves(space)]


class LeafReader:
    """Reads one array of several environments' observations at once, because it runs at every step.

    Attributes:
      array: its shape and dtype in an environment.
      is_bare: whether observations are nothing but this array.
    """

    def __init__(self, leaf: ObservationLeaf, space: gymnasium.Space):
        self._leaf = leaf
        self.array = leaf.spec.unpacked
        self._shape, self._dtype = self.array.shape, np.dtype(self.array.dtype)
        self.is_bare = not leaf.path and not leaf.is_text
        self._goes_as_it_is = leaf.spec.bits is None and leaf.start is None
        self._limits = None if leaf.is_text else _limits(_at(space, leaf.path), self._dtype)
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
            arrays = _at(observation, self._leaf.path)
            array = (
                np.array([hash_words(text) for text in arrays]) if self._leaf.is_text else np.asarray(arrays)
            )
        except Exception as error:  # Whatever the environment's own classes raise.
            raise self._missing(error) from error
        if array.ndim == 0 or len(array) != size:
            raise Fault(f"returned {array.dtype}{list(array.shape)} for {self._name} of {size} environments")
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
                f"returned {dtype}{list(array.shape[1:])} for {self._name}, but its observation space says "
                f"{self.array}; fix the space or the observation"
            )
        if self._limits is not None and not (self._all_is_allowed and dtype == self._dtype) and array.size:
            self._check(array, *self._limits)
        if self._goes_as_it_is:
            return array
        if self._leaf.spec.bits is not None:
            return np.packbits(array.reshape(len(array), -1), axis=1)
        assert self._leaf.start is not None
        return array.astype(np.int64) - self._leaf.start

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
        if abs(float(value)) <= LARGEST_NUMBER and self._dtype.kind != "f":
            lowest, highest = (limit if np.ndim(limit) == 0 else limit[place] for limit in (low, high))
            rule = f"its observation space says {lowest} to {highest}; fix the space or the observation"
        else:
            rule = _MUST_BE_FINITE
        raise Fault(f"returned {value} for {self._name}{at}, but {rule}")

    def _find(self, observation: Any) -> Any:
        try:
            observation = _at(observation, self._leaf.path)
            return hash_words(observation) if self._leaf.is_text else observation
        except Exception as error:  # Whatever the environment's own classes raise.
            raise self._missing(error) from error

    def _missing(self, error: Exception) -> Fault:
        return Fault(f"returned no array for {self._name} ({described(error)})")

    @property
    def _name(self) -> str:
        return f"the observation '{self._leaf.name}'" if self._leaf.name else "the observation"


def owned(value: Any, depth: int = 8) -> Any:
    """Copies of arrays, and of the dicts, lists and tuples that hold them, so many levels deep.

    An environment may change later what it has returned, and share it with other environments. Objects of
    other kinds, and those that cannot be copied, are returned as they are.
    """
    try:
        if type(value) is np.ndarray:
            return value.copy()
        if hasattr(value, "mask") and np.ma.is_masked(value):
            return np.ma.filled(value.astype(np.float64), np.nan)
        if hasattr(value, "__array__") and not isinstance(value, np.generic):
            return np.array(value)
        if depth and isinstance(value, Mapping):
            return {key: owned(value[key], depth - 1) for key in value}
        if depth and isinstance(value, tuple | list):
            return [owned(entry, depth - 1) for entry in value]
    except Exception:  # Any error of the environment's own classes; the checks report it.
        pass
    return value


def owned_step(returned: Any) -> Any:
    """Result of a single environment's `step`, with the observation, and at an end the info, `owned`."""
    if not isinstance(returned, _SEQUENCES) or len(returned) != 5:
        return returned
    observation, reward, terminated, truncated, info = returned
    try:
        if terminated or truncated:
            info = owned(info, INFO_DEPTH)
    except Exception:  # No bools.
        return returned
    observation = observation.copy() if type(observation) is np.ndarray else owned(observation)
    return observation, reward, terminated, truncated, info


def start_of_episode(returned: Any) -> Any:
    """The observation in what `reset` returned; raises what `reset_outcome` does."""
    return owned(reset_outcome(returned)[0])


def reset_outcome(returned: Any) -> tuple[Any, dict[Any, Any]]:
    """Result of `reset`, observation and info, checked.

    Raises:
      Fault: it is not a pair of observation and info dict.
    """
    if not isinstance(returned, tuple | list) or len(returned) != 2:
        raise Fault(f"returned {_shown(returned)}, not (observation, info)")
    _check_info(returned[1])
    return returned[0], returned[1]


def together(outcomes: Sequence[Any]) -> tuple[Sequence[Any], np.ndarray, Sequence[Any]] | None:
    """Observations, rewards `[N]` and info dicts of steps that end no episode, checked all at once.

    None if one of them ends an episode, or may have a fault (but for the observation): see `parts`.
    """
    try:
        observations, rewards, terminated, truncated, infos = zip(*outcomes, strict=True)
        array = np.array(rewards)
        is_regular = (
            _FLAGS.issuperset(map(type, terminated + truncated))
            and not (any(terminated) or any(truncated))
            and _DICTS.issuperset(map(type, infos))
            and array.shape == (len(outcomes),)
            and array.dtype.kind in "fiub"
            and sum(map(abs, array.tolist())) <= LARGEST_NUMBER  # In no small dtype; false for NaN.
        )
    except (TypeError, ValueError, OverflowError):
        return None
    return (observations, array, infos) if is_regular else None


class BatchStep(NamedTuple):
    """Result of a vector environment's step of N environments, checked but for the observation.

    Attributes:
      observation: N observations, in the arrays of the vector environment's observation space.
      reward: float64 `[N]`.
      terminated: bool `[N]`.
      truncated: bool `[N]`.
      infos: values of N environments by key, as Gymnasium keeps them (`info_of`).
    """

    observation: Any
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    infos: dict[Any, Any]


def batch_step(returned: Any, size: int) -> BatchStep:
    """Checked result of `step` of a vector environment of N = `size` environments.

    Raises:
      Fault: it is not what Gymnasium says.
    """
    if not isinstance(returned, tuple | list) or len(returned) != 5:
        raise Fault(f"returned {_shown(returned)}, not (observations, rewards, terminated, truncated, infos)")
    observation, reward, terminated, truncated, infos = returned
    _check_info(infos)
    is_terminated = _numbers("terminated", terminated, size, "biu").astype(np.bool_)
    is_truncated = _numbers("truncated", truncated, size, "biu").astype(np.bool_)
    rewards = _numbers("rewards", reward, size, "fiub").astype(np.float64)
    if not (np.abs(rewards) <= LARGEST_NUMBER).all():
        index = int(np.argmin(np.abs(rewards) <= LARGEST_NUMBER))
        raise Fault(f"returned the reward {rewards[index]:g} for environment {index}, but {_MUST_BE_FINITE}")
    return BatchStep(observation, rewards, is_terminated, is_truncated, infos)


def _numbers(name: str, value: Any, size: int, kinds: str) -> np.ndarray:
    try:
        array = np.asarray(value)
    except Exception as error:
        raise Fault(f"returned no array for {name} ({described(error)})") from error
    if array.shape != (size,) or array.dtype.kind not in kinds:
        raise Fault(f"returned {array.dtype}{list(array.shape)} for {name}, not one for each of {size}")
    return array


def info_of(infos: Mapping[Any, Any], index: int, keys: Iterable[Any] | None = None) -> dict[Any, Any]:
    """One environment's info dict, from those of N environments as Gymnasium's vector environments keep them.

    These have an array `[N]` for each key, and a mask under the key with an underscore before it, if not all
    environments have a value. `keys`: only these; None: all.
    """
    found = {}
    for key in infos if keys is None else keys:
        mask = infos.get(f"_{key}")
        is_mask = isinstance(key, str) and key.startswith("_")
        if not is_mask and (mask is None or mask[index]):
            found[key] = entry_of(infos[key], index)
    return found


def entry_of(values: Any, index: Any) -> Any:
    """One environment's entry of arrays `[N, ...]`, in dicts or not."""
    if isinstance(values, Mapping):
        return info_of(values, index)
    try:
        return values[index]
    except (TypeError, IndexError, KeyError):
        return values


def parts(returned: Any) -> tuple[Any, float, bool, bool, dict[Any, Any]]:
    """Observation, reward, terminated, truncated and info of what `step` returned, the last four checked.

    Raises:
      Fault: one of them is not what Gymnasium says.
    """
    if not isinstance(returned, tuple | list) or len(returned) != 5:
        raise Fault(f"returned {_shown(returned)}, not (observation, reward, terminated, truncated, info)")
    observation, reward, terminated, truncated, info = returned
    _check_info(info)
    return observation, _reward(reward), _flag("terminated", terminated), _flag("truncated", truncated), info


def _check_info(info: Any) -> None:
    if not isinstance(info, dict):
        raise Fault(f"returned the info {_shown(info)}, which is no dict")


def _reward(reward: Any) -> float:
    array = _scalar(reward)
    if array is None or array.dtype.kind not in "fiub":
        raise Fault(f"returned the reward {_shown(reward)}, which is not one number of at most 64 bits")
    if not abs(float(array)) <= LARGEST_NUMBER:
        raise Fault(f"returned the reward {float(array):g}, but {_MUST_BE_FINITE}")
    return float(array)


def _flag(name: str, value: Any) -> bool:
    array = _scalar(value)
    if array is None or array.dtype.kind not in "biu":
        raise Fault(f"returned {_shown(value)} for {name}, which is no bool")
    return bool(array)


def _scalar(value: Any) -> np.ndarray | None:
    try:
        array = np.array(value)
    except Exception:  # Whatever the environment's own classes raise.
        return None
    is_masked = hasattr(value, "mask") and np.ma.is_masked(value)
    return array if array.shape == () and not is_masked else None


def _shown(value: Any) -> str:
    try:
        return one_line(f"{reprlib.repr(value)} of type {type(value).__name__}", 100)
    except Exception:
        return f"something of type {type(value).__name__}"


def _at(nest: Any, path: Sequence[Any]) -> Any:
    """The entry of nested dicts and tuples, or of nested spaces, that a path leads to."""
    for key in path:
        nest = nest[key]
    return nest


def _limits(space: gymnasium.Space, dtype: np.dtype) -> tuple[Any, Any] | None:
    """The least and greatest values that a space allows: numbers, or arrays of its shape; None for bools.

    Floats are only limited by the range of a network's input: valid environments overstep a Box's bounds.
    """
    if dtype.kind == "f":
        most = np.float64(
            min(LARGEST_NUMBER, float(np.finfo(dtype).max))
        )  # A float would become a smaller dtype.
        return -most, most
    if dtype.kind not in "iu":
        return None
    numbers = whole_numbers(space)
    if numbers is not None:
        low, num_values = numbers
        high = low + num_values - 1
    else:
        assert isinstance(space, spaces.Box)
        low, high = space.low, space.high
        if dtype.itemsize == 8:
            low = np.maximum(low, 0 if dtype.kind == "u" else -int(LARGEST_NUMBER))
            high = np.minimum(high, int(LARGEST_NUMBER))
    if low.size and (low == low.flat[0]).all() and (high == high.flat[0]).all():
        return int(low.flat[0]), int(high.flat[0])
    return low, high


def _are_those_of(dtype: np.dtype, low: Any, high: Any) -> bool:
    """Whether limits are the least and greatest values of an integer dtype."""
    return (
        dtype.kind in "iu" and np.ndim(low) == 0 and (low, high) == (np.iinfo(dtype).min, np.iinfo(dtype).max)
    )
