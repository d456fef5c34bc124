"""Curves that were measured at different moments, brought onto common ones."""

from collections.abc import Sequence

import numpy as np

MAX_POINTS = 300


def common_grid(positions: Sequence[np.ndarray]) -> np.ndarray:
    """Evenly spaced positions over the range that every curve covers.

    Args:
      positions: where each curve was measured, float64 `[N]` in ascending order, N from 1 and
        its own for each.

    Returns:
      float64 `[M]`, as many as the densest curve has within the range, from 2 to 300; 1 where the range is a
      point.

    Raises:
      ValueError: no range is common to all; one sentence.
    """
    start = max(float(at[0]) for at in positions)
    end = min(float(at[-1]) for at in positions)
    if end < start:
        raise ValueError(
            "Runs that are averaged have no range of frames in common (one ends before another has figures); "
            "wait until all have trained for as long, or draw them separately."
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
      values: float64 `[N]` of each curve.

    Returns:
      float64 `[curves, M]`.
    """
    return np.stack([np.interp(grid, at, value) for at, value in zip(positions, values, strict=True)])
