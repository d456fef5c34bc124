"""The line that represents a group: a single run's own curve, or the mean of several with its band."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from seed_rl.plotting.alignment import common_grid, interpolate
from seed_rl.plotting.bands import mean_band, median_band
from seed_rl.plotting.groups import Group, Run
from seed_rl.runs.scores import human_normalized

Axis = Literal["env_frames", "seconds"]


class Line(NamedTuple):
    """A line to draw, float64 `[N]` each.

    Attributes:
      x: environment frames or seconds.
      y: the metric, or its mean or median.
      low: lower edge of the 95% confidence band; None if there is none.
      high: upper edge; None if there is none.
    """

    x: np.ndarray
    y: np.ndarray
    low: np.ndarray | None = None
    high: np.ndarray | None = None


def group_line(group: Group, axis: Axis) -> Line:
    """A group's metric against environment frames or seconds.

    Raises:
      ValueError: its runs have no range in common.
    """
    curves = [run.curve for run in group.runs]
    positions = [getattr(curve, axis) for curve in curves]
    if len(curves) == 1:
        return Line(positions[0], curves[0].value)
    x = common_grid(positions)
    return Line(x, *mean_band(interpolate(x, positions, [curve.value for curve in curves])))


def median_line(groups: Sequence[Group]) -> Line:
    """The median over games of the human-normalized return, in percent, against environment frames.

    Args:
      groups: one per game.

    Raises:
      ValueError: there are no published scores for a game, or the runs have no range in common.
    """
    values = [[_normalized(run) for run in group.runs] for group in groups]
    positions = [[run.curve.env_frames for run in group.runs] for group in groups]
    x = common_grid([at for game in positions for at in game])
    return Line(x, *median_band([interpolate(x, at, v) for at, v in zip(positions, values, strict=True)]))


def _normalized(run: Run) -> np.ndarray:
    """The curve in percent. It is linear in the return, so its values at returns of 0 and 1 determine it."""
    record = run.record
    at_zero, at_one = (human_normalized(record.environment, record.game, value) for value in (0.0, 1.0))
    return at_zero + (at_one - at_zero) * run.curve.value
