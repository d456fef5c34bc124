"""Means and medians with their bootstrap bands, against slow versions that go through every draw."""

import itertools

import numpy as np

from seed_rl.plotting.bands import mean_band, median_band


def all_draws(seeds):
    """Means over seeds, `[S^S, N]`, of every way to draw S seeds with replacement."""
    count = len(seeds)
    return np.array([seeds[list(draw)].mean(0) for draw in itertools.product(range(count), repeat=count)])


def percentiles(draws):
    return np.percentile(draws, 2.5, axis=0), np.percentile(draws, 97.5, axis=0)


def test_mean_of_seeds_and_its_band_over_all_draws():
    seeds = np.random.default_rng(0).normal(size=(4, 6)) * 10
    band = mean_band(seeds)
    np.testing.assert_allclose(band.centre, [sum(column) / 4 for column in seeds.T])
    low, high = percentiles(all_draws(seeds))
    spread = np.ptp(seeds, axis=0)
    np.testing.assert_allclose((band.low - low) / spread, 0, atol=0.08)
    np.testing.assert_allclose((band.high - high) / spread, 0, atol=0.08)
    assert np.all(band.low < band.centre) and np.all(band.centre < band.high)


def test_median_over_games_draws_the_seeds_of_each_game_apart():
    rng = np.random.default_rng(1)
    games = [rng.normal(size=(count, 5)) * scale for count, scale in ((3, 1.0), (2, 4.0), (1, 2.0))]
    band = median_band(games)
    means = [[seeds[:, i].mean() for seeds in games] for i in range(5)]
    np.testing.assert_allclose(band.centre, [sorted(three)[1] for three in means])
    medians = [np.median(three, axis=0) for three in itertools.product(*map(all_draws, games))]
    low, high = percentiles(np.array(medians))
    spread = np.ptp(medians, axis=0) + 1e-9
    np.testing.assert_allclose((band.low - low) / spread, 0, atol=0.12)
    np.testing.assert_allclose((band.high - high) / spread, 0, atol=0.12)


def test_single_seeds_have_no_band():
    seeds = np.array([[1.0, 2.0]])
    np.testing.assert_array_equal(mean_band(seeds).centre, [1, 2])
    assert mean_band(seeds)[1:] == (None, None)
    band = median_band([seeds, 3 * seeds, 10 * seeds])
    np.testing.assert_array_equal(band.centre, [3, 6])
    assert band[1:] == (None, None)
