"""The bounds of a Box action, as the middle of each component's range and half of its width."""

from typing import NamedTuple

import numpy as np

from seed_rl.types import ArraySpec


class Bounds(NamedTuple):
    """Float32 `[size]` each: actions are `middle + half_range * x` with x in [-1, 1]."""

    middle: np.ndarray
    half_range: np.ndarray


def bounds_of(spec: ArraySpec) -> Bounds:
    """The bounds of a Box; 0 and 1 where it has none, so that actions are left as they are.

    Raises:
      ValueError: its lowest values are not below its highest.
    """
    if spec.minimum is None or spec.maximum is None:
        return Bounds(np.zeros(spec.size, np.float32), np.ones(spec.size, np.float32))
    low, high = np.array(spec.minimum, np.float32), np.array(spec.maximum, np.float32)
    if not (low < high).all():
        raise ValueError(f"A Box action needs lowest values below its highest values, not {spec}.")
    return Bounds(0.5 * (low + high), 0.5 * (high - low))
