"""The bounds of a Box action, as the middle of each component's range and half of its width."""

from typing import NamedTuple

import numpy as np

from seed_rl.types import ArraySpec


class Bounds(NamedTuple):
    """Of each component, `[size]`: actions are `middle + half_range * x`.

    middle, half_range: float32. With both bounds, x is in [-1, 1]. Where a bound is missing, any x is
      possible, `half_range` is 1, and `middle` is as close to 0 as it can be 1 inside of the other bound.
    is_bounded: bool, whether there are both bounds, with room between them.
    is_fixed: bool, whether both are the same: `middle`, whatever x is.
    """

    middle: np.ndarray
    half_range: np.ndarray
    is_bounded: np.ndarray
    is_fixed: np.ndarray


def bounds_of(spec: ArraySpec) -> Bounds:
    """The bounds of a Box's components.

    Raises:
      ValueError: a lowest value is above its highest.
    """
    low = np.array((-np.inf,) * spec.size if spec.minimum is None else spec.minimum, np.float32)
    high = np.array((np.inf,) * spec.size if spec.maximum is None else spec.maximum, np.float32)
    if not (low <= high).all():
        index = int(np.argmin(low <= high))
        raise ValueError(
            f"Component {index} of a Box action needs a lowest value that is not above its highest, not "
            f"{low[index]:g} to {high[index]:g}."
        )
    has_both = np.isfinite(low) & np.isfinite(high)
    # TensorFlow takes numbers below `tiny` for 0, and divides by half of the width.
    with np.errstate(invalid="ignore", over="ignore"):
        half_range = 0.5 * high - 0.5 * low
        is_fixed = has_both & (half_range < np.finfo(np.float32).tiny)
        is_bounded = has_both & ~is_fixed
        middle = np.where(has_both, 0.5 * low + 0.5 * high, np.clip(0.0, low + 1.0, high - 1.0))
    return Bounds(
        middle.astype(np.float32),
        np.where(is_bounded, half_range, 1.0).astype(np.float32),
        is_bounded,
        is_fixed,
    )
