"""Converts Gymnasium spaces to the specs used on the wire, and refuses wrappers with running statistics.

On the wire, integer actions and discrete observations are int32 and count from 0, whatever the space's
`start`. Floating-point actions are float32, and so are float64 observations. Arrays of bools are packed,
eight to a byte. Text becomes the numbers of its words (`hash_words`). Every other observation keeps its
dtype. Dict spaces become dicts; Tuple spaces become dicts with the keys '0', '1', ….
"""

import functools
import math
import re
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces, wrappers
from gymnasium.vector import VectorEnv
from gymnasium.wrappers import vector as vectors

from seed_rl.environments.actions import action_spec, integer_spec, shown, whole_numbers
from seed_rl.environments.base import EnvironmentConfig
from seed_rl.environments.failures import described
from seed_rl.messages import warn
from seed_rl.types import ArraySpec, EnvironmentSpec, Nest

NUM_WORDS = 16
VOCABULARY_SIZE = 1000


def hash_words(text: str) -> np.ndarray:
    """The first 16 words as numbers 1 to 999, then zeros: int32 `[16]`.

    Letter case and punctuation are ignored. A word's number is the same in every process and version; two
    words may share a number.
    """
    numbers = np.zeros(NUM_WORDS, np.int32)
    words = re.findall(r"\w+", text.lower())[:NUM_WORDS]
    numbers[: len(words)] = [zlib.crc32(word.encode()) % (VOCABULARY_SIZE - 1) + 1 for word in words]
    return numbers


class Spaces(NamedTuple):
    """Gymnasium's spaces of an environment."""

    observation_space: spaces.Space
    action_space: spaces.Space


class ObservationLeaf(NamedTuple):
    """One array of an observation.

    Attributes:
      name: as `flatten_spec` names it: keys joined by '/', '' for a bare array.
      path: the keys and indices that lead to it in the environment's own observation.
      spec: of the array on the wire.
      start: int `[*spec.shape]`, subtracted from the environment's values; None when they start at 0.
      is_text: whether the environment's value is a string.
    """

    name: str
    path: tuple[Any, ...]
    spec: ArraySpec
    start: np.ndarray | None
    is_text: bool = False


def environment_spec(env: gymnasium.Env | VectorEnv | Spaces, config: EnvironmentConfig) -> EnvironmentSpec:
    """Spec of an environment, or of each one of a vector.

    Raises:
      ValueError: a space is missing, or of a kind that is not supported; or a wrapper keeps statistics.
    """
    return EnvironmentSpec(*_checked_specs(env), config.num_action_repeats)


def _checked_specs(env: gymnasium.Env | VectorEnv | Spaces) -> tuple[Nest, ArraySpec]:
    """The specs of observations and actions of every environment that is played."""
    refuse_statistics(env)
    action = action_spec(single_space(env, "action_space"))
    return observation_spec(single_space(env, "observation_space")), action


def check_spaces(name: str, env: gymnasium.Env | VectorEnv | Spaces, spec: EnvironmentSpec) -> None:
    """Raises ValueError unless one environment of a batch, or all of a vector, have the spec of the batch."""
    observation, action = _checked_specs(env)
    if observation != spec.observation or action != spec.action:
        raise ValueError(
            f"{name} has observation {observation} and action {action}, but the batch has "
            f"{spec.observation} and {spec.action}; environments that step together must have equal spaces."
        )


def single_space(env: gymnasium.Env | VectorEnv | Spaces, name: str) -> spaces.Space:
    """The `observation_space` or `action_space` of an environment, or of each one of a vector.

    Raises:
      ValueError: it is missing, or none of Gymnasium's.
    """
    name = f"single_{name}" if isinstance(env, VectorEnv) else name
    try:
        space = getattr(env, name)
    except Exception as error:
        raise ValueError(f"The environment has no {name} ({described(error)}); set it.") from error
    if not isinstance(space, spaces.Space):
        raise ValueError(
            f"The environment's {name} is of type {type(space).__name__}; it must be one of gymnasium.spaces."
        )
    return space


def observation_spec(space: spaces.Space) -> Nest:
    """The nest of ArraySpec for an observation space, without the arrays that have no element.

    Raises:
      ValueError: the space, or one inside it, is of a kind that is not supported, or no array has an element.
    """
    spec: dict[str, Nest] = {}
    for leaf in observation_leaves(space):
        if not leaf.name:
            return leaf.spec
        *outer, last = leaf.name.split("/")
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


def observation_leaves(space: spaces.Space) -> list[ObservationLeaf]:
    """The arrays of an observation with elements, in the order of `flatten_spec(observation_spec(space))`.

    Raises:
      ValueError: the space, or one inside it, is of a kind that is not supported.
    """
    return list(_walk(space, (), ()))


def _walk(space: spaces.Space, names: tuple[str, ...], path: tuple[Any, ...]) -> Iterator[ObservationLeaf]:
    if not isinstance(space, spaces.Dict | spaces.Tuple):
        spec, start = _array_spec(space)
        if spec.size:
            yield ObservationLeaf("/".join(names), path, spec, start, _is_text(space))
        return
    items = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
    children: list[tuple[Any, spaces.Space]] = sorted(items, key=lambda item: str(item[0]))
    if not children or any("/" in str(key) or str(key) == "" for key, _ in children):
        raise ValueError(
            f"The observation space {shown(space)} is not supported; a Dict or Tuple space needs at least "
            "one entry, and names that are not empty and contain no '/'."
        )
    for key, child in children:
        yield from _walk(child, (*names, str(key)), (*path, key))


def _array_spec(space: spaces.Space) -> tuple[ArraySpec, np.ndarray | None]:
    """The spec of a space that is one array, and the start that is subtracted from its values."""
    if isinstance(space, spaces.Box) and space.dtype.kind in "biuf":
        if space.dtype == np.bool_ and math.prod(space.shape) > 1:
            return ArraySpec.packed(space.shape), None
        is_wide = space.dtype.kind == "f" and space.dtype.itemsize > 4
        dtype = "float32" if is_wide else space.dtype.name
        return ArraySpec(space.shape, dtype), None
    numbers = whole_numbers(space)
    if numbers is not None:
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
    dtype = getattr(space, "dtype", None)
    return dtype is not None and dtype.kind == "U"


_NORMALIZERS = (
    *(wrappers.NormalizeObservation, wrappers.NormalizeReward),
    *(vectors.NormalizeObservation, vectors.NormalizeReward),
)


def without_statistics(env: Any) -> Any:
    """The (vector) environment without Gymnasium's outermost normalizers, which the network can replace."""
    while type(env) in _NORMALIZERS and _is_running(env):
        _warn_of_wrapper(type(env).__name__)
        env = env.env
    return env


def refuse_statistics(env: Any) -> None:
    """Raises ValueError if the environment, or one that it contains, keeps running statistics."""
    for layer in filter(_is_running, _wrapped(env, set())):
        for name, value in vars(layer).items():
            if any(kind.__name__ == "RunningMeanStd" for kind in type(value).__mro__):  # Of any package.
                kind = type(layer).__name__
                raise ValueError(
                    f"{kind} of the environment keeps running statistics ({name}), which no checkpoint has: "
                    "the agent would get other numbers in evaluation than in training. Take it out and set "
                    f"{_flag_instead(f'{kind} {name}')}, which saves its own."
                )


def _wrapped(env: Any, seen: set[int]) -> Iterator[Any]:
    """An environment and those that its attributes hold, outermost first."""
    if id(env) not in seen and hasattr(env, "__dict__"):
        seen.add(id(env))
        yield env
        for value in list(vars(env).values()):
            for entry in value if isinstance(value, list | tuple) else (value,):
                if isinstance(entry, gymnasium.Env | VectorEnv):
                    yield from _wrapped(entry, seen)


def _is_running(layer: Any) -> bool:
    """False for fixed statistics, which are part of the environment's code."""
    return getattr(layer, "update_running_mean", True) is not False


def _flag_instead(name: str) -> str:
    """The flag that takes the place of a wrapper or of its attribute."""
    what = "rewards" if "rew" in name.lower() or " ret" in name.lower() else "observations"
    return f"--normalize_{what} (in Python: normalize_{what}=True)"


@functools.cache
def _warn_of_wrapper(name: str) -> None:
    warn(
        f"{name} of the environment is left out: no checkpoint has its statistics. Set "
        f"{_flag_instead(name)} instead."
    )
