"""The line that represents a group: a single run's own curve, or the mean of several with its band.

Bands are those of "Deep Reinforcement Learning at the Edge of the Statistical Precipice" (Agarwal et al.,
2021, section 4.1): whole curves of seeds are drawn with replacement, separately for each game, and the band
spans the range from the 2.5% to the 97.5% percentile over all draws (`scipy.stats.bootstrap`).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.stats

from seed_rl.plotting.groups import Group, Run
from seed_rl.runs.scores import human_normalized

_CONFIDENCE = 0.95
_DRAWS = 1000
_SEED = 0  # The same runs give the same plot.
_BATCH_NUMBERS = 2_000_000  # float64 values drawn at a time: 16 MB.
_MAX_POINTS = 300


class Line(NamedTuple):
    """A line to draw, float64 `[N]` each.

    Attributes:
      x: environment frames or seconds.
      y: the metric, or its mean or median.
      low: lower edge of the 95% confidence band; None if no game has two seeds.
      high: upper edge; None in the same case.
    """

    x: np.ndarray
    y: np.ndarray
    low: np.ndarray | None = None
    high: np.ndarray | None = None


def group_line(group: Group, axis: str) -> Line:
    """A group's metric against `axis`, "env_frames" or "seconds".

    Raises:
      ValueError: its runs have no range in common.
    """
    curves = [(getattr(run.curve, axis), run.curve.value) for run in group.runs]
    return Line(*curves[0]) if len(curves) == 1 else _median_line([curves])


def median_line(groups: Sequence[Group]) -> Line:
    """The median over games of the human-normalized return, in percent, against environment frames.

    Args:
      groups: one per game.

    Raises:
      ValueError: there are no published scores for a game, or the runs have no range in common.
    """
    return _median_line(
        [[(run.curve.env_frames, _normalized(run)) for run in group.runs] for group in groups]
    )


def _normalized(run: Run) -> np.ndarray:
    """The curve in percent. It is linear in the return, so its values at returns of 0 and 1 determine it."""
    record = run.record
    at_zero, at_one = (human_normalized(record.environment, record.game, value) for value in (0.0, 1.0))
    return at_zero + (at_one - at_zero) * run.curve.value


def _median_line(games: Sequence[Sequence[tuple[np.ndarray, np.ndarray]]]) -> Line:
    """The median over games of the mean over seeds, given the positions and values of each game's seeds."""
    x = common_grid([at for game in games for at, _ in game])
    return Line(x, *median_band([np.stack([np.interp(x, at, y) for at, y in game]) for game in games]))


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
    return np.linspace(start, end, min(max(densest, 2), _MAX_POINTS))


def median_band(games: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
    """The median over games of the mean over seeds, and the edges of its band as in `Line`, `[N]` each.

    Args:
      games: for each game, the curves of its seeds, float64 `[S, N]`; S is at least 1 and may differ between
        games.
    """
    centre = _median_of_means(*games, axis=0)
    if all(len(seeds) == 1 for seeds in games):
        return centre, None, None
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
    return centre, result.confidence_interval.low, result.confidence_interval.high


def _median_of_means(*games: np.ndarray, axis: int) -> np.ndarray:
    return np.median([seeds.mean(axis=axis) for seeds in games], axis=0)
