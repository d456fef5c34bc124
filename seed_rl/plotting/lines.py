"""The lines that represent runs: each seed's curve, and means, medians and interquartile means with bands.

Bands and the interquartile mean are those of "Deep Reinforcement Learning at the Edge of the Statistical
Precipice" (Agarwal et al., 2021, sections 4.1 and 4.3): whole curves of seeds are drawn with replacement,
separately for each game, and the band spans the range from the 2.5% to the 97.5% percentile over all draws
(`scipy.stats.bootstrap`). There is a band only if every game has three seeds: two say too little.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import scipy.stats

from seed_rl.metrics.curves import Curve
from seed_rl.plotting.groups import RunGroup

FEWEST_SEEDS = 3  # For a band.
_POINTS = 300

# From the curves of each game's seeds, `[..., S, ...]`, to one curve; `axis` is that of the seeds.
Statistic = Callable[..., np.ndarray]


class Line(NamedTuple):
    """A line to draw, float64 `[N]` each.

    Attributes:
      x: environment frames, seconds or ranks.
      y: the metric, or its mean, median or interquartile mean.
      low: lower edge of the 95% confidence band; None if a game has fewer than three seeds.
      high: upper edge; None in the same case.
      is_seed: whether it is one of several seeds, of which another line is the mean.
    """

    x: np.ndarray
    y: np.ndarray
    low: np.ndarray | None = None
    high: np.ndarray | None = None
    is_seed: bool = False


def group_lines(group: RunGroup, axis: str) -> list[Line]:
    """The mean over a group's runs as far as all of them go, and each run.

    A single run is its own mean. There is no mean if one run ends before another begins.
    """
    curves = [run.curve for run in group.runs]
    seeds = [Line(getattr(curve, axis), curve.value) for curve in curves]
    if len(seeds) == 1 or not len(common_grid([line.x for line in seeds])):
        return seeds
    return [summary([curves], np.mean, axis), *(line._replace(is_seed=True) for line in seeds)]


def summary(games: Sequence[Sequence[Curve]], statistic: Statistic, axis: str) -> Line:
    """A statistic over games and their seeds, with its band, as far as all curves go.

    Raises:
      ValueError: they have no range in common; the message is one sentence.
    """
    x = common_grid([getattr(curve, axis) for curves in games for curve in curves])
    if not len(x):
        what = "frames" if axis == "env_frames" else "time"
        raise ValueError(
            f"The runs to aggregate have no range of {what} in common (one ends before another has metrics); "
            "wait until they have all trained for as long, or leave some out."
        )
    values = [np.stack([np.interp(x, getattr(c, axis), c.value) for c in curves]) for curves in games]
    return Line(x, statistic(*values, axis=0), *band(values, statistic))


def common_grid(positions: Sequence[np.ndarray]) -> np.ndarray:
    """Evenly spaced positions over the range that every curve covers.

    Args:
      positions: where each curve was measured, float64 `[N]` in ascending order; N is at least 1 and may
        differ between curves.

    Returns:
      float64 `[300]`; `[1]` if the range is a single point, and `[0]` if there is none.
    """
    start = max(float(at[0]) for at in positions)
    end = min(float(at[-1]) for at in positions)
    return np.linspace(start, end, _POINTS if end > start else int(start == end))


def band(games: Sequence[np.ndarray], statistic: Statistic) -> tuple[np.ndarray | None, np.ndarray | None]:
    """The edges of a statistic's 95% band, `[N]` each; None if a game has fewer than three seeds.

    Args:
      games: for each game, the curves of its seeds, float64 `[S, N]`; S may differ between games.
      statistic: what the band is of.
    """
    if min(map(len, games)) < FEWEST_SEEDS:
        return None, None
    result = scipy.stats.bootstrap(
        games,
        statistic,
        axis=0,
        vectorized=True,
        paired=False,
        n_resamples=1000,
        batch=100,  # 41 MB for 57 games with three seeds each.
        confidence_level=0.95,
        method="percentile",
        random_state=np.random.default_rng(0),  # The same runs give the same plot.
    )
    return result.confidence_interval.low, result.confidence_interval.high


def median_of_means(*games: np.ndarray, axis: int) -> np.ndarray:
    """The median over games of the mean over seeds."""
    return np.median([seeds.mean(axis=axis) for seeds in games], axis=0)


def interquartile_mean(*games: np.ndarray, axis: int) -> np.ndarray:
    """The mean of the middle half of all runs of all games (IQM); each game counts by its number of seeds."""
    return scipy.stats.trim_mean(np.concatenate(games, axis=axis), 0.25, axis=axis)
