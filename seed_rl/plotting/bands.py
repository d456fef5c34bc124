"""Means over seeds and their 95% confidence bands, by bootstrap.

The scheme is that of "Deep Reinforcement Learning at the Edge of the Statistical Precipice" (Agarwal et al.,
2021, section 4.1): seeds are drawn with replacement, separately for each game, and the band spans the range
from the 2.5% to the 97.5% percentile over all draws. Whole curves are drawn. `scipy.stats.bootstrap` does the
work, with one sample per game. The authors' own library, rliable, was tried, but its dependency `arch` cannot
be imported with the current pandas.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.stats

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
