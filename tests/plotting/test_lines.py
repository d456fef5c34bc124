"""Means and medians with their bootstrap bands, against slow versions that go through every draw."""

import itertools

import numpy as np
import pytest

from seed_rl.plotting.groups import Group, Run, group_records
from seed_rl.plotting.lines import common_grid, group_line, median_band
from tests.plotting.synthetic import make_curve, make_record


def all_draws(seeds):
    """Means over seeds, `[S^S, N]`, of every way to draw S seeds with replacement."""
    count = len(seeds)
    return np.array([seeds[list(draw)].mean(0) for draw in itertools.product(range(count), repeat=count)])


def percentiles(draws):
    return np.percentile(draws, [2.5, 97.5], axis=0)


def test_mean_of_seeds_and_its_band_over_all_draws():
    seeds = np.random.default_rng(0).normal(size=(4, 6)) * 10
    centre, low, high = median_band([seeds])
    np.testing.assert_allclose(centre, [sum(column) / 4 for column in seeds.T])
    expected = percentiles(all_draws(seeds))
    np.testing.assert_allclose(([low, high] - expected) / np.ptp(seeds, axis=0), 0, atol=0.08)
    assert np.all(low < centre) and np.all(centre < high)


def test_median_over_games_draws_the_seeds_of_each_game_apart():
    rng = np.random.default_rng(1)
    games = [rng.normal(size=(count, 5)) * scale for count, scale in ((3, 1.0), (2, 4.0), (1, 2.0))]
    centre, low, high = median_band(games)
    means = [[seeds[:, i].mean() for seeds in games] for i in range(5)]
    np.testing.assert_allclose(centre, [sorted(three)[1] for three in means])
    medians = [np.median(three, axis=0) for three in itertools.product(*map(all_draws, games))]
    expected = percentiles(np.array(medians))
    np.testing.assert_allclose(([low, high] - expected) / (np.ptp(medians, axis=0) + 1e-9), 0, atol=0.12)


def test_single_seeds_have_no_band():
    seeds = np.array([[1.0, 2.0]])
    for games, median in (([seeds], [1, 2]), ([seeds, 3 * seeds, 10 * seeds], [3, 6])):
        centre, *band = median_band(games)
        np.testing.assert_array_equal(centre, median)
        assert band == [None, None]


def test_grid_spans_what_every_curve_covers_as_densely_as_the_densest():
    grid = common_grid([np.array([0.0, 50.0, 100.0]), np.array([10.0, 20.0, 30.0, 40.0, 80.0, 120.0])])
    np.testing.assert_allclose(grid, [10, 32.5, 55, 77.5, 100][: len(grid)])
    assert (grid[0], grid[-1], len(grid)) == (10, 100, 5)


def test_no_range_in_common_is_one_sentence():
    with pytest.raises(ValueError, match=r"no range of frames in common.*wait until") as caught:
        common_grid([np.array([1.0, 2.0]), np.array([3.0, 4.0])])
    assert "\n" not in str(caught.value)


def test_curves_are_interpolated_before_they_are_averaged():
    (((task, variant), records),) = group_records([make_record("a"), make_record("b")]).items()
    curves = make_curve([0, 10, 20], [0, 10, 40]), make_curve([0, 20], [0, 0])
    runs = tuple(Run(record, "x", curve) for record, curve in zip(records, curves, strict=True))
    line = group_line(Group(task, variant, runs), "env_frames")
    np.testing.assert_array_equal(line.x, [0, 10, 20])
    np.testing.assert_array_equal(line.y, [0, 5, 20])
