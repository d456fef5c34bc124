"""Action spaces: their specs and bounds, actions as environments take them, and random actions."""

import copy
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import spaces

from seed_rl.types import ArraySpec

# A bound as far from 0 as this stands for infinity: environments write 1e10 or the largest float for it.
_INFINITE = 1e9
# Keeps the draws of random starts apart from those of an environment that has the same seed.
_RANDOM_START = 1_803_028
# Messages show so much of a space.
_MOST_CHARACTERS = 200


def action_spec(space: spaces.Space) -> ArraySpec:
    """The spec of an action space: Discrete, MultiDiscrete, MultiBinary or a floating-point Box.

    MultiDiscrete and MultiBinary of any shape become int32 `[k]`. A Box keeps its shape and becomes float32;
    each component keeps its own bounds, of which 1e9 and more in absolute value count as infinite.

    Raises:
      ValueError: any other space, one that leaves nothing to choose, or one with a component that has no
        finite value.
    """
    numbers = whole_numbers(space)
    if numbers is not None:
        num_values = numbers[1] if isinstance(space, spaces.Discrete) else numbers[1].reshape(-1)
        if not num_values.size:
            raise _no_choice(space)
        return integer_spec(num_values)
    if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating):
        return _box_spec(space)
    raise ValueError(
        f"The action space {shown(space)} is not supported; use Discrete, MultiDiscrete, MultiBinary or a "
        "floating-point Box."
    )


def action_decoder(space: spaces.Space) -> Callable[[np.ndarray], list[Any]]:
    """A function from N >= 1 wire actions `[N, *action_spec(space).shape]` to N actions for `env.step`.

    They are as `space.sample()` gives them: of the same type and dtype, in memory of their own.
    Box actions are clipped to the space's bounds. The function raises ValueError if an integer action is
    out of range or a Box action is not finite.

    Raises:
      ValueError: the space is not supported.
    """
    spec = action_spec(space)
    numbers = whole_numbers(space)
    if numbers is not None:
        apart: Any = (
            list if isinstance(space, spaces.Discrete) else functools.partial(_apart, numbers[0].shape)
        )
        start = numbers[0].astype(space.dtype).reshape(spec.shape)
        return functools.partial(_decode_integers, np.array(spec.num_values, np.uint64), start, apart)
    assert isinstance(space, spaces.Box)
    limits = np.finfo(space.dtype)  # Infinite bounds do not keep an action within a small dtype.
    return functools.partial(
        _decode_box, space.dtype, np.maximum(space.low, limits.min), np.minimum(space.high, limits.max)
    )


def whole_numbers(space: spaces.Space) -> tuple[np.ndarray, np.ndarray] | None:
    """The lowest value of each number in a space, and how many values it takes: arrays of the space's shape.

    None for other spaces than Discrete, MultiDiscrete and MultiBinary.
    """
    if isinstance(space, spaces.Discrete):
        return np.array(space.start), np.array(space.n)
    if isinstance(space, spaces.MultiDiscrete):
        return space.start, space.nvec
    if isinstance(space, spaces.MultiBinary):
        return np.zeros(space.shape, space.dtype), np.full(space.shape, 2)
    return None


def integer_spec(num_values: np.ndarray, dtype: str = "int32") -> ArraySpec:
    """The spec of an array of integers from 0, which take so many values each.

    Raises:
      ValueError: one takes more values than 32 bits have.
    """
    if num_values.size == 0:
        return ArraySpec(num_values.shape, dtype)
    if num_values.max() - 1 > np.iinfo(np.int32).max:
        raise ValueError(
            f"An observation has {num_values.max():,} values, but is sent in 32 bits; write it as several "
            "smaller numbers (MultiDiscrete) or as a Box."
        )
    maximum = tuple((num_values.reshape(-1) - 1).tolist())
    return ArraySpec(num_values.shape, dtype, (0,) * len(maximum), maximum)


def _box_spec(space: spaces.Box) -> ArraySpec:
    low, high = _box_bounds(space)
    if np.isnan(low).any() or np.isnan(high).any():
        raise ValueError(f"The action space {shown(space)} has a bound that is NaN; set it to a number.")
    if not (low < high).any():
        raise _no_choice(space)
    if np.isinf(low).all() and np.isinf(high).all():
        return ArraySpec(space.shape, "float32")
    with np.errstate(over="ignore"):
        lowest, highest = (bound.astype(np.float32).reshape(-1) for bound in (low, high))
    for i in np.flatnonzero((lowest == np.inf) | (highest == -np.inf)):
        raise ValueError(
            f"Component {i} of the action space is from {low.flat[i]} to {high.flat[i]}, where float32 has "
            "no number; change its bounds."
        )
    return ArraySpec(space.shape, "float32", tuple(lowest.tolist()), tuple(highest.tolist()))


def _box_bounds(space: spaces.Box) -> tuple[np.ndarray, np.ndarray]:
    """The bounds of a floating-point Box, float64 `[*shape]` each, infinite where they are huge."""
    with np.errstate(over="ignore"):
        low, high = space.low.astype(np.float64), space.high.astype(np.float64)
    has_no_lowest = (low <= -_INFINITE) & (high > -_INFINITE)
    has_no_highest = (high >= _INFINITE) & (low < _INFINITE)
    return np.where(has_no_lowest, -np.inf, low), np.where(has_no_highest, np.inf, high)


def _no_choice(space: spaces.Space) -> ValueError:
    return ValueError(
        f"The action space {shown(space)} leaves nothing to choose; give it a component whose lowest value "
        "is below its highest."
    )


def random_actions(space: spaces.Space, seed: int, most: int) -> list[Any]:
    """Draws 0 to `most` actions, each number with the same probability, for a random start.

    Many simulators that start alike are correlated, and learning fails early. So each first steps "through a
    random number of uniform-random actions" (Stooke & Abbeel, 2018, section 5.3).

    The environment's seed alone determines the actions, which are as `env.step` takes them. The random state
    of its action space stays as it is. A huge bound, as an agent does not see it either, is left out: such
    numbers have no meaning, and may overflow.
    """
    rng = np.random.default_rng((seed, _RANDOM_START))
    count = int(rng.integers(most + 1))
    drawn_from = copy.deepcopy(space)
    if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating):
        low, high = _box_bounds(space)
        if (low != space.low).any() or (high != space.high).any():
            drawn_from = spaces.Box(low, high, dtype=space.dtype)
    drawn_from.seed(int(rng.integers(2**31)))
    return [drawn_from.sample() for _ in range(count)]


def _decode_integers(
    num_values: np.ndarray, start: np.ndarray, apart: Callable[[np.ndarray], list[Any]], actions: np.ndarray
) -> list[Any]:
    """Decodes N integer wire actions; raises ValueError if one is out of range."""
    inside = actions.astype(np.uint64) < num_values  # Negative numbers are large, too.
    if np.count_nonzero(inside) < inside.size:
        wrong = actions[np.argmin(inside.reshape(len(actions), -1).all(axis=1))]
        raise ValueError(
            f"The action {wrong.tolist()} is out of range; each number must be at least 0 and less than its "
            f"entry in {num_values.tolist()}."
        )
    return apart(actions.astype(start.dtype) + start)


def _decode_box(dtype: Any, low: np.ndarray, high: np.ndarray, actions: np.ndarray) -> list[np.ndarray]:
    """Decodes N wire actions of a Box, and clips them; raises ValueError if one is not finite."""
    finite = np.isfinite(actions)
    if not finite.all():
        action = actions[np.argmin(finite.reshape(len(actions), -1).all(axis=1))]
        raise ValueError(f"The action {action.tolist()} is not finite; check the network for NaN.")
    return _apart(low.shape, np.clip(actions, low, high).astype(dtype, copy=False))


def _apart(shape: tuple[int, ...], actions: np.ndarray) -> list[np.ndarray]:
    """An array of this shape in memory of its own for each environment, also of no dimension."""
    actions = actions.reshape(-1, *shape)
    return [actions[index, ...].copy() for index in range(len(actions))]


def shown(space: spaces.Space) -> str:
    """A space on one line; many spaces show arrays."""
    text = " ".join(str(space).split())
    return text if len(text) <= _MOST_CHARACTERS else text[: _MOST_CHARACTERS - 1] + "…"
