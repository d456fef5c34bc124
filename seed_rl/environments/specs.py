"""Converts Gymnasium spaces to the specs used on the wire, and wire actions to `env.step` actions.

On the wire, integer actions and discrete observations are int32 and count from 0, whatever the space's
`start`. Floating-point actions are float32, and so are float64 observations. Arrays of bools are packed,
eight to a byte. Text becomes the numbers of its words (`hash_words`). Every other observation keeps its
dtype. Dict spaces become dicts; Tuple spaces become dicts with the keys '0', '1', ….
"""

import functools
import math
import re
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces

from seed_rl.environments.actions import (
    box_spec,
    decode_box,
    decode_discrete,
    decode_integers,
    no_choice,
    shown,
)
from seed_rl.environments.base import EnvironmentConfig, Suite
from seed_rl.environments.failures import EnvironmentFailedError, FailureConfig, Spares, Watched, described
from seed_rl.seeds import derived_seed
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


def environment_spec(env: gymnasium.Env, config: EnvironmentConfig) -> EnvironmentSpec:
    """What the learner must know about an environment.

    Raises:
      ValueError: a space is missing, or of a kind that is not supported.
    """
    return EnvironmentSpec(
        observation_spec(_space(env, "observation_space")),
        action_spec(_space(env, "action_space")),
        config.num_action_repeats,
    )


def check_spaces(index: int, env: gymnasium.Env, spec: EnvironmentSpec) -> None:
    """Raises ValueError unless environment `index` of a batch has the spec of the batch."""
    observation = observation_spec(_space(env, "observation_space"))
    action = action_spec(_space(env, "action_space"))
    if observation != spec.observation or action != spec.action:
        raise ValueError(
            f"Environment {index} has observation {observation} and action {action}, but the batch has "
            f"{spec.observation} and {spec.action}; environments that step together must have equal spaces."
        )


def suite_spec(
    suite: Suite,
    config: EnvironmentConfig,
    seed: int,
    tolerance: FailureConfig = FailureConfig(),  # noqa: B008 (immutable)
) -> EnvironmentSpec:
    """The spec of a suite's environments; makes one environment to find out, and closes it.

    The environment's seed is derived from `seed`. Making it may fail and take time as `tolerance` says.

    Raises:
      ValueError: the suite refuses the configuration, a space is not supported, or the environment fails.
      ImportError: the suite's engine is not installed.
    """
    spares = Spares(lambda _, count: suite.make(config, derived_seed(seed, 0, count)), tolerance)
    watched = Watched(None, 0, spares)
    try:
        return environment_spec(watched.make(), config)
    except EnvironmentFailedError as error:
        raise ValueError(f"{error.what}; fix the environment.") from error
    finally:
        watched.close()


def _space(env: gymnasium.Env, name: str) -> spaces.Space:
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


def action_spec(space: spaces.Space) -> ArraySpec:
    """The spec of an action space: Discrete, MultiDiscrete, MultiBinary or a floating-point Box.

    MultiDiscrete and MultiBinary of any shape become int32 `[k]`. A Box keeps its shape and becomes float32;
    each component keeps its own bounds (`box_spec`).

    Raises:
      ValueError: any other space, or one that leaves nothing to choose.
    """
    if isinstance(space, spaces.Discrete):
        return _integer_spec((), np.array(space.n))
    if isinstance(space, spaces.MultiDiscrete | spaces.MultiBinary):
        num_values = _num_values(space).reshape(-1)
        if not num_values.size:
            raise no_choice(space)
        return _integer_spec(num_values.shape, num_values)
    if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating):
        return box_spec(space)
    raise ValueError(
        f"The action space {shown(space)} is not supported; use Discrete, MultiDiscrete, MultiBinary or a "
        "floating-point Box."
    )


def action_decoder(space: spaces.Space) -> Callable[[np.ndarray], list[Any]]:
    """A function from N >= 1 wire actions `[N, *action_spec(space).shape]` to N actions for `env.step`.

    Box actions are clipped to the space's bounds. The function raises ValueError if an integer action is
    out of range or a Box action is not finite.

    Raises:
      ValueError: the space is not supported.
    """
    spec = action_spec(space)
    if isinstance(space, spaces.Discrete):
        return functools.partial(decode_discrete, int(space.n), int(space.start))
    if isinstance(space, spaces.MultiDiscrete):
        return functools.partial(decode_integers, spec, space.start)
    if isinstance(space, spaces.MultiBinary):
        return functools.partial(decode_integers, spec, np.zeros(space.shape, space.dtype))
    assert isinstance(space, spaces.Box)
    limits = np.finfo(space.dtype)  # Infinite bounds do not keep an action within a small dtype.
    return functools.partial(
        decode_box, space.dtype, np.maximum(space.low, limits.min), np.minimum(space.high, limits.max)
    )


def _children(space: spaces.Space) -> list[tuple[str, Any, spaces.Space]] | None:
    """(name, key, space) for each entry of a Dict or Tuple space, sorted by name; None for other spaces."""
    items: list[tuple[Any, spaces.Space]]
    if isinstance(space, spaces.Dict):
        items = list(space.spaces.items())
    elif isinstance(space, spaces.Tuple):
        items = list(enumerate(space.spaces))
    else:
        return None
    if not items or any("/" in str(key) or str(key) == "" for key, _ in items):
        raise ValueError(
            f"The observation space {shown(space)} is not supported; a Dict or Tuple space needs at least "
            "one entry, and names that are not empty and contain no '/'."
        )
    return sorted(((str(key), key, child) for key, child in items), key=lambda item: item[0])


def _walk(space: spaces.Space, names: tuple[str, ...], path: tuple[Any, ...]) -> Iterator[ObservationLeaf]:
    children = _children(space)
    if children is None:
        spec, start = _array_spec(space)
        if spec.size:
            yield ObservationLeaf("/".join(names), path, spec, start, _is_text(space))
        return
    for name, key, child in children:
        yield from _walk(child, (*names, name), (*path, key))


def _array_spec(space: spaces.Space) -> tuple[ArraySpec, np.ndarray | None]:
    """The spec of a space that is one array, and the start that is subtracted from its values."""
    if isinstance(space, spaces.Box) and space.dtype.kind in "biuf":
        if space.dtype == np.bool_ and math.prod(space.shape) > 1:
            return ArraySpec.packed(space.shape), None
        is_wide = space.dtype.kind == "f" and space.dtype.itemsize > 4
        dtype = "float32" if is_wide else space.dtype.name
        return ArraySpec(space.shape, dtype), None
    if isinstance(space, spaces.Discrete):
        return _integer_spec((), np.array(space.n)), _start(np.array(space.start))
    if isinstance(space, spaces.MultiDiscrete):
        return _integer_spec(space.shape, _num_values(space)), _start(space.start)
    if isinstance(space, spaces.MultiBinary):
        return _integer_spec(space.shape, _num_values(space), space.dtype.name), None
    if _is_text(space):
        return _integer_spec((NUM_WORDS,), np.full(NUM_WORDS, VOCABULARY_SIZE)), None
    raise ValueError(
        f"The observation space {shown(space)} is not supported; use Box, Discrete, MultiDiscrete, "
        "MultiBinary, Text, or Dict and Tuple of these."
    )


def _is_text(space: spaces.Space) -> bool:
    """Also True for spaces of strings that other packages define."""
    dtype = getattr(space, "dtype", None)
    return dtype is not None and dtype.kind == "U"


def _integer_spec(shape: tuple[int, ...], num_values: np.ndarray, dtype: str = "int32") -> ArraySpec:
    if num_values.size == 0:
        return ArraySpec(shape, dtype)
    if num_values.max() - 1 > np.iinfo(np.int32).max:
        raise ValueError(
            f"An observation has {num_values.max():,} values, but is sent in 32 bits; write it as several "
            "smaller numbers (MultiDiscrete) or as a Box."
        )
    maximum = tuple((num_values.reshape(-1) - 1).tolist())
    return ArraySpec(shape, dtype, (0,) * len(maximum), maximum)


def _num_values(space: spaces.MultiDiscrete | spaces.MultiBinary) -> np.ndarray:
    return space.nvec if isinstance(space, spaces.MultiDiscrete) else np.full(space.shape, 2)


def _start(start: np.ndarray) -> np.ndarray | None:
    return start if start.any() else None
