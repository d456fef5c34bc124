"""The line that represents a group: a single run's own curve, or the mean of several with its band.

Bands are those of "Deep Reinforcement Learning at the Edge of the Statistical Precipice" (Agarwal et al.,
2021, section 4.1): whole curves of seeds are drawn with replacement, separately for each game, and the band
spans the range from the 2.5% to the 97.5% percentile over all draws (`scipy.stats.bootstrap`).
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import scipy.stats

from seed_rl.plotting.groups import Group, Run
from seed_rl.runs.scores import human_normalized

_CONFIDENCE = 0.95
_DRAWS = 1000
_SEED = 0  # The same runs give the same plot.
_BATCH_NUMBERS = 2_000_000  # float64 values drawn at a time: 16 MB.


class Band(NamedTuple):
    """A curve and its confidence band, float64 `[N]` each.

    Attributes:
      centre: the statistic itself.
      low: lower edge of the 95% band; None if no game has two seeds.
      high: upper edge; None in the same case.
    """

    centre: np.ndarray
    low: np.ndarray | None
    high: np.ndarray | None


def mean_band(seeds: np.ndarray) -> Band:
    """The mean over S seeds, at least one, whose curves are float64 `[S, N]`."""
    return median_band([seeds])


def median_band(games: Sequence[np.ndarray]) -> Band:
    """The median over games of the mean over seeds.

    Args:
      games: for each game, the curves of its seeds, float64 `[S, N]`; S is at least 1 and may differ between
        games.
    """
    centre = _median_of_means(*games, axis=0)
    if all(len(seeds) == 1 for seeds in games):
        return Band(centre, None, None)
    # The bootstrap needs two seeds. A seed that is repeated stands for itself: every draw has its mean.
    samples = [seeds if len(seeds) > 1 else np.repeat(seeds, 2, axis=0) for seeds in games]
    result = scipy.stats.bootstrap(
        samples,
        _median_of_means,
        axis=0,
        vectorized=True,
        paired=False,
        n_resamples=_DRAWS,
        batch=max(1, _BATCH_NUMBERS // sum(sample.size for sample in samples)),
        confidence_level=_CONFIDENCE,
        method="percentile",
        random_state=np.random.default_rng(_SEED),
    )
    return Band(centre, result.confidence_interval.low, result.confidence_interval.high)


def _median_of_means(*games: np.ndarray, axis: int) -> np.ndarray:
    return np.median([seeds.mean(axis=axis) for seeds in games], axis=0)


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
