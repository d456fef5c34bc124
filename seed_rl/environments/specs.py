"""Converts Gymnasium spaces to the specs used on the wire, and wire actions to `env.step` actions.

On the wire, integer actions and discrete observations are int32 and count from 0, whatever the space's
`start`. Floating-point actions are float32, and so are float64 observations. Arrays of bools are packed,
eight to a byte. Text becomes the numbers of its words (`hash_words`). Every other observation keeps its
dtype. Dict spaces become dicts; Tuple spaces become dicts with the keys '0', '1', ….
"""

import functools
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces

from seed_rl.environments.base import EnvironmentConfig, Suite
from seed_rl.environments.failures import EnvironmentFailedError, FailureConfig, Spares, Watched
from seed_rl.environments.words import NUM_WORDS, VOCABULARY_SIZE
from seed_rl.messages import one_line
from seed_rl.seeds import derived_seed
from seed_rl.types import ArraySpec, EnvironmentSpec, Nest


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


def suite_spec(suite: Suite, config: EnvironmentConfig, seed: int) -> EnvironmentSpec:
    """The spec of a suite's environments; makes one environment to find out, and closes it.

    Raises:
      ValueError: the suite refuses the configuration, a space is not supported, or the environment fails.
      ImportError: the suite's engine is not installed.
    """
    tolerance = FailureConfig()
    watched = Watched(
        None,
        0,
        Spares(
            lambda _, count: suite.make(config, derived_seed(seed, 0, count)),
            tolerance.max_environment_failures,
            timeout_secs=tolerance.env_step_timeout_secs,
        ),
    )
    try:
        return environment_spec(watched.make(), config)
    except EnvironmentFailedError as error:
        raise ValueError(str(error)) from error
    finally:
        watched.close()


def _space(env: gymnasium.Env, name: str) -> spaces.Space:
    try:
        space = getattr(env, name)
    except Exception as error:
        raise ValueError(
            one_line(f"The environment has no {name} ({type(error).__name__}: {error}); set it.", 300)
        ) from error
    if not isinstance(space, spaces.Space):
        raise ValueError(
            f"The environment's {name} is of type {type(space).__name__}; it must be one of gymnasium.spaces."
        )
    return space


def observation_spec(space: spaces.Space) -> Nest:
    """The nest of ArraySpec for an observation space.

    Raises:
      ValueError: the space, or one inside it, is of a kind that is not supported.
    """
    children = _children(space)
    if children is None:
        return _array_spec(space)[0]
    return {name: observation_spec(child) for name, _, child in children}


def observation_leaves(space: spaces.Space) -> list[ObservationLeaf]:
    """The arrays of an observation, in the order of `flatten_spec(observation_spec(space))`.

    Raises:
      ValueError: the space, or one inside it, is of a kind that is not supported.
    """
    return list(_walk(space, (), ()))


def action_spec(space: spaces.Space) -> ArraySpec:
    """The spec of an action space: Discrete, MultiDiscrete, MultiBinary or a floating-point Box.

    MultiDiscrete and MultiBinary of any shape become int32 `[k]`. A Box keeps its shape and becomes float32;
    it has bounds only if all of them are finite.

    Raises:
      ValueError: any other space.
    """
    if isinstance(space, spaces.Discrete):
        return _integer_spec((), np.array(space.n))
    if isinstance(space, spaces.MultiDiscrete | spaces.MultiBinary):
        num_values = _num_values(space).reshape(-1)
        return _integer_spec(num_values.shape, num_values)
    if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating):
        low, high = space.low.astype(np.float32), space.high.astype(np.float32)
        if not (np.isfinite(low).all() and np.isfinite(high).all()):
            return ArraySpec(space.shape, "float32")
        return ArraySpec(
            space.shape, "float32", tuple(low.reshape(-1).tolist()), tuple(high.reshape(-1).tolist())
        )
    raise ValueError(
        f"The action space {space} is not supported; use Discrete, MultiDiscrete, MultiBinary or a "
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
        return functools.partial(_decode_discrete, int(space.n), int(space.start))
    if isinstance(space, spaces.MultiDiscrete):
        return functools.partial(_decode_integers, spec, space.start)
    if isinstance(space, spaces.MultiBinary):
        return functools.partial(_decode_integers, spec, np.zeros(space.shape, space.dtype))
    assert isinstance(space, spaces.Box)
    return functools.partial(_decode_box, space)


def _decode_discrete(num_values: int, start: int, actions: np.ndarray) -> list[int]:
    values = actions.tolist()
    for value in (min(values), max(values)):
        if not 0 <= value < num_values:
            raise ValueError(f"The action {value} is out of range; it must be 0 to {num_values - 1}.")
    return [value + start for value in values] if start else values


def _decode_integers(spec: ArraySpec, start: np.ndarray, actions: np.ndarray) -> list[np.ndarray]:
    impossible = ((actions < 0) | (actions >= spec.num_values)).any(axis=1)
    if impossible.any():
        raise ValueError(
            f"The action {actions[impossible][0].tolist()} is out of range; each element must be at least 0 "
            f"and less than its entry in {list(spec.num_values)}."
        )
    return list(actions.reshape(-1, *start.shape).astype(start.dtype) + start)


def _decode_box(space: spaces.Box, actions: np.ndarray) -> list[np.ndarray]:
    finite = np.isfinite(actions)
    if not finite.all():
        action = actions[np.argmin(finite.reshape(len(actions), -1).all(axis=1))]
        raise ValueError(f"The action {action.tolist()} is not finite; check the network for NaN.")
    return list(np.clip(actions.astype(space.dtype), space.low, space.high))


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
            f"The observation space {space} is not supported; a Dict or Tuple space needs at least one "
            "entry, and names that are not empty and contain no '/'."
        )
    return sorted(((str(key), key, child) for key, child in items), key=lambda item: item[0])


def _walk(space: spaces.Space, names: tuple[str, ...], path: tuple[Any, ...]) -> Iterator[ObservationLeaf]:
    children = _children(space)
    if children is None:
        yield ObservationLeaf("/".join(names), path, *_array_spec(space), is_text=_is_text(space))
        return
    for name, key, child in children:
        yield from _walk(child, (*names, name), (*path, key))


def _array_spec(space: spaces.Space) -> tuple[ArraySpec, np.ndarray | None]:
    """The spec of a space that is one array, and the start that is subtracted from its values."""
    if isinstance(space, spaces.Box) and space.dtype.kind in "biuf":
        if space.dtype == np.bool_ and math.prod(space.shape) > 1:
            return ArraySpec.packed(space.shape), None
        dtype = "float32" if space.dtype == np.float64 else space.dtype.name
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
        f"The observation space {space} is not supported; use Box, Discrete, MultiDiscrete, MultiBinary, "
        "Text, or Dict and Tuple of these."
    )


def _is_text(space: spaces.Space) -> bool:
    """Also True for spaces of strings that other packages define."""
    return space.dtype is not None and space.dtype.kind == "U"


def _integer_spec(shape: tuple[int, ...], num_values: np.ndarray, dtype: str = "int32") -> ArraySpec:
    maximum = tuple((num_values.reshape(-1) - 1).tolist())
    return ArraySpec(shape, dtype, (0,) * len(maximum), maximum)


def _num_values(space: spaces.MultiDiscrete | spaces.MultiBinary) -> np.ndarray:
    return space.nvec if isinstance(space, spaces.MultiDiscrete) else np.full(space.shape, 2)


def _start(start: np.ndarray) -> np.ndarray | None:
    return start if start.any() else None
