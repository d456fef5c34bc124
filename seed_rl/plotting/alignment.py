"""Resamples curves that were measured at different positions onto a common grid."""

from collections.abc import Sequence

import numpy as np

MAX_POINTS = 300


def common_grid(positions: Sequence[np.ndarray]) -> np.ndarray:
    """Evenly spaced positions over the range that every curve covers.

    Args:
      positions: where each curve was measured, float64 `[N]` in ascending order; N is at least 1 and may
        differ between curves.

    Returns:
      float64 `[M]`, as many points as the densest curve has within the range, limited to 2 to 300; 1 if the
      range is a single point.

    Raises:
      ValueError: the curves have no range in common; the message is one sentence.
    """
    start = max(float(at[0]) for at in positions)
    end = min(float(at[-1]) for at in positions)
    if end < start:
        raise ValueError(
            "The runs to average have no range of frames in common (one ends before another has metrics); "
            "wait until they have all trained for as long, or plot them separately."
        )
    if start == end:
        return np.array([start])
    densest = max(int(np.sum((at >= start) & (at <= end))) for at in positions)
    return np.linspace(start, end, min(max(densest, 2), MAX_POINTS))


def interpolate(
    grid: np.ndarray, positions: Sequence[np.ndarray], values: Sequence[np.ndarray]
) -> np.ndarray:
    """Linear interpolation of every curve on the grid.

    Args:
      grid: float64 `[M]`, within the range of every curve.
      positions: as in `common_grid`.
      values: the values of each curve, float64 `[N]`.

    Returns:
      float64 `[curves, M]`.
    """
    return np.stack([np.interp(grid, at, value) for at, value in zip(positions, values, strict=True)])
