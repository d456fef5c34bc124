"""Results of environments' methods, taken apart and checked; `observations` checks what is observed."""

import reprlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from seed_rl.environments.failures import Fault
from seed_rl.environments.observations import LARGEST, MUST_BE_FINITE
from seed_rl.messages import one_line

# Levels of an info dict that are read: its entries, and those of `metrics`.
INFO_DEPTH = 2

_FLAGS, DICTS = frozenset((bool, np.bool_)), frozenset((dict,))


class StepResult(NamedTuple):
    """Result of `step`, checked but for the observation.

    Attributes:
      observation: as the environment, or a vector of N environments, returns it.
      reward: float64, of one environment or `[N]`.
      terminated: bool, likewise.
      truncated: bool, likewise.
      info: a dict; that of N environments has values by key, as Gymnasium keeps them (`info_of`).
    """

    observation: Any
    reward: Any
    terminated: Any
    truncated: Any
    info: dict[Any, Any]


def checked_step(returned: Any, size: int | None = None) -> StepResult:
    """Checked result of `step`, of one environment or of a vector of N = `size` environments.

    Raises:
      Fault: it is not what Gymnasium says.
    """
    if not isinstance(returned, tuple | list) or len(returned) != 5:
        raise Fault(f"returned {_shown(returned)}, not (observation, reward, terminated, truncated, info)")
    observation, reward, terminated, truncated, info = returned
    _check_info(info)
    is_terminated = _numbers("terminated", terminated, size, "biu").astype(np.bool_)
    is_truncated = _numbers("truncated", truncated, size, "biu").astype(np.bool_)
    with np.errstate(over="ignore"):
        rewards = _numbers("the reward", reward, size, "fiub").astype(np.float64)
    fits = np.abs(rewards) <= LARGEST  # False for NaN.
    if not fits.all():
        index = int(np.argmin(fits))
        which = "" if size is None else f" for environment {index}"
        raise Fault(f"returned the reward {rewards.flat[index]:g}{which}, but {MUST_BE_FINITE}")
    return StepResult(observation, rewards[()], is_terminated[()], is_truncated[()], info)


def _numbers(name: str, value: Any, size: int | None, kinds: str) -> np.ndarray:
    """An array of one number, or of `size`, whose dtype is of these kinds."""
    shape = () if size is None else (size,)
    is_masked = hasattr(value, "mask") and np.ma.is_masked(value)
    try:
        array = np.asarray(value)
    except Exception:  # Whatever the environment's own classes raise.
        array = np.array(None)
    if array.shape != shape or array.dtype.kind not in kinds or is_masked:
        what = "numbers of at most 64 bits" if "f" in kinds else "bools"
        count = "one" if size is None else f"{size}"
        raise Fault(f"returned {_shown(value)} for {name}, not {count} of {what}")
    return array


def reset_outcome(returned: Any) -> tuple[Any, dict[Any, Any]]:
    """Result of `reset`, observation and info, checked.

    Raises:
      Fault: it is not a pair of observation and info dict.
    """
    if not isinstance(returned, tuple | list) or len(returned) != 2:
        raise Fault(f"returned {_shown(returned)}, not (observation, info)")
    _check_info(returned[1])
    return returned[0], returned[1]


def _check_info(info: Any) -> None:
    if not isinstance(info, dict):
        raise Fault(f"returned the info {_shown(info)}, which is no dict")


def _shown(value: Any) -> str:
    try:
        return one_line(f"{reprlib.repr(value)} of type {type(value).__name__}", 100)
    except Exception:
        return f"something of type {type(value).__name__}"


def together(outcomes: Sequence[Any]) -> tuple[Sequence[Any], np.ndarray, Sequence[Any]] | None:
    """Observations, rewards `[N]` and info dicts of steps that end no episode, checked all at once.

    None if one of them ends an episode, or may have a fault (but for the observation): see `checked_step`.
    """
    try:
        observations, rewards, terminated, truncated, infos = zip(*outcomes, strict=True)
        array = np.array(rewards)
        is_regular = (
            _FLAGS.issuperset(map(type, terminated + truncated))
            and not (any(terminated) or any(truncated))
            and DICTS.issuperset(map(type, infos))
            and array.shape == (len(outcomes),)
            and array.dtype.kind in "fiub"
            and sum(map(abs, array.tolist())) <= LARGEST  # In no small dtype; false for NaN.
        )
    except (TypeError, ValueError, OverflowError):
        return None
    return (observations, array, infos) if is_regular else None


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
    try:
        observation, reward, terminated, truncated, info = returned
        if terminated or truncated:
            info = owned(info, INFO_DEPTH)
    except Exception:  # An error, no sequence of five, or no bools.
        return returned
    observation = observation.copy() if type(observation) is np.ndarray else owned(observation)
    return observation, reward, terminated, truncated, info


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
