"""Means and medians with their bootstrap bands, against slow versions that go through every draw."""

import itertools

import numpy as np
import pytest

from seed_rl.plotting.lines import common_grid, interpolate, mean_band, median_band


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


def test_grid_spans_what_every_curve_covers_as_densely_as_the_densest():
    grid = common_grid([np.array([0.0, 50.0, 100.0]), np.array([10.0, 20.0, 30.0, 40.0, 80.0, 120.0])])
    np.testing.assert_allclose(grid, [10, 32.5, 55, 77.5, 100][: len(grid)])
    assert (grid[0], grid[-1], len(grid)) == (10, 100, 5)


def test_no_range_in_common_is_one_sentence():
    with pytest.raises(ValueError, match=r"no range of frames in common.*wait until") as caught:
        common_grid([np.array([1.0, 2.0]), np.array([3.0, 4.0])])
    assert "\n" not in str(caught.value)


def test_interpolation_is_that_of_straight_lines():
    rng = np.random.default_rng(0)
    positions = [np.sort(rng.uniform(0, 100, size=n)) for n in (7, 12, 30)]
    values = [rng.normal(size=len(at)) for at in positions]
    grid = common_grid(positions)
    found = interpolate(grid, positions, values)
    assert found.shape == (3, len(grid))
    for row, at, value in zip(found, positions, values, strict=True):
        for x, y in zip(grid, row, strict=True):
            right = max(1, next(i for i in range(len(at)) if at[i] >= x))
            share = (x - at[right - 1]) / (at[right] - at[right - 1])
            assert y == pytest.approx(value[right - 1] + share * (value[right] - value[right - 1]))
