"""Spaces of Gymnasium as JSON: what a program writes down that keeps its own loop."""

import json
import math
from typing import Any

import numpy as np
from gymnasium import spaces

from seed_rl.environments.specs import Spaces
from seed_rl.files import parse_json
from seed_rl.messages import one_line

EXAMPLE = '{"observation": {"box": [4], "low": -1, "high": 1}, "action": {"discrete": 2}}'


def dump_spaces(found: Spaces) -> str:
    """The text for a pair of spaces.

    Raises:
      ValueError: one of them is of another kind than box, discrete, multi_discrete, multi_binary and dict.
    """
    observation, action = found
    return json.dumps({"observation": _dumped(observation), "action": _dumped(action)}, sort_keys=True)


def parse_spaces(text: str) -> Spaces:
    """The pair of spaces in a text; opposite of `dump_spaces`.

    Raises:
      ValueError: it is not such a text; the message is a clause that says why.
    """
    found = parse_json(text)
    if not isinstance(found, dict) or found.keys() != {"observation", "action"}:
        raise ValueError("it must be an object with the entries observation and action")
    return Spaces(_parsed(found["observation"], "observation"), _parsed(found["action"], "action"))


def _dumped(space: Any) -> dict[str, Any]:
    if isinstance(space, spaces.Dict):
        return {"dict": {name: _dumped(entry) for name, entry in space.spaces.items()}}
    if isinstance(space, spaces.Discrete):
        return {"discrete": int(space.n)} | ({"start": int(space.start)} if space.start else {})
    if isinstance(space, spaces.MultiDiscrete):
        return {"multi_discrete": space.nvec.tolist()}
    if isinstance(space, spaces.MultiBinary):
        return {"multi_binary": list(np.atleast_1d(space.n).tolist())}
    if isinstance(space, spaces.Box):
        limits = {name: _numbers(getattr(space, name)) for name in ("low", "high")}
        return {"box": list(space.shape), "dtype": str(space.dtype), **limits}
    raise ValueError(
        f"A space of type {type(space).__name__} cannot be written as JSON; use Box, Discrete, "
        "MultiDiscrete, MultiBinary or a Dict of these."
    )


def _numbers(limits: np.ndarray) -> Any:
    """One number if all are the same, else nested lists; infinite ones are null."""
    finite = [x if math.isfinite(x) else None for x in limits.ravel().tolist()]
    if len(set(finite)) == 1:
        return finite[0]
    return np.array(finite, object).reshape(limits.shape).tolist()


def _parsed(found: Any, where: str) -> spaces.Space:
    if not isinstance(found, dict) or len(kind := found.keys() & {*_KINDS, "dict"}) != 1:
        raise ValueError(
            f"{where} must be an object with one of box, dict, discrete, multi_binary and multi_discrete"
        )
    (name,) = kind
    if name == "dict":
        entries = found["dict"]
        if not isinstance(entries, dict) or not entries or len(found) > 1:
            raise ValueError(f"{where}.dict must be an object with at least one space, by name")
        return spaces.Dict({key: _parsed(entry, f"{where}.{key}") for key, entry in entries.items()})
    try:
        return _KINDS[name](**found)
    except (TypeError, ValueError, OverflowError, AssertionError) as error:
        raise ValueError(f"{where} is no {name} space: {one_line(str(error), 200)}") from None


def _box(box: Any, low: Any = None, high: Any = None, dtype: str = "float32") -> spaces.Space:
    """A Box of a shape; limits are numbers, or lists of them in this shape; null: none."""

    def limits(given: Any, infinite: float) -> np.ndarray:
        numbers = np.array(given, object)
        numbers[numbers == None] = infinite  # noqa: E711 (of each element)
        return np.broadcast_to(numbers.astype(float), box).astype(dtype)

    if np.dtype(dtype).kind in "iu" and (low is None or high is None):
        raise ValueError("integers need low and high")
    return spaces.Box(limits(low, -math.inf), limits(high, math.inf), tuple(box), np.dtype(dtype).type)


# A function of the entries for each kind of space.
_KINDS: dict[str, Any] = {
    "box": _box,
    "discrete": lambda discrete, start=0: spaces.Discrete(discrete, start=start),
    "multi_binary": lambda multi_binary: spaces.MultiBinary(multi_binary),
    "multi_discrete": lambda multi_discrete: spaces.MultiDiscrete(multi_discrete),
}
