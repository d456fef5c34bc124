"""Means, medians and interquartile means with their bands, against versions that go through every draw."""

import itertools

import numpy as np
import pytest

from seed_rl.plotting.lines import (
    band,
    common_grid,
    group_lines,
    interquartile_mean,
    median_of_means,
    summary,
)
from tests.plotting.synthetic import make_curve, make_groups, make_record


def all_draws(seeds):
    """Every way to draw S seeds with replacement, `[S^S, S, N]`."""
    count = len(seeds)
    return np.array([seeds[list(draw)] for draw in itertools.product(range(count), repeat=count)])


def percentiles(draws):
    return np.percentile(draws, [2.5, 97.5], axis=0)


def test_mean_of_seeds_and_its_band_over_all_draws():
    seeds = np.random.default_rng(0).normal(size=(4, 6)) * 10
    low, high = band([seeds], np.mean)
    centre = np.mean(seeds, axis=0)
    np.testing.assert_allclose(centre, [sum(column) / 4 for column in seeds.T])
    expected = percentiles(all_draws(seeds).mean(1))
    np.testing.assert_allclose(([low, high] - expected) / np.ptp(seeds, axis=0), 0, atol=0.08)
    assert np.all(low < centre) and np.all(centre < high)


def sorted_median(games):
    """Of the means of three games, `[..., 3, S, N]`, the one in the middle."""
    return np.sort(games.mean(-2), axis=-2)[..., 1, :]


def sorted_iqm(games):
    """The mean of nine runs, `[..., 3, 3, N]`, without the two lowest and the two highest."""
    runs = games.reshape(*games.shape[:-3], 9, games.shape[-1])
    return np.sort(runs, axis=-2)[..., 2:7, :].mean(-2)


@pytest.mark.parametrize(
    ("statistic", "by_hand"), [(median_of_means, sorted_median), (interquartile_mean, sorted_iqm)]
)
def test_aggregates_draw_the_seeds_of_each_game_apart(statistic, by_hand):
    rng = np.random.default_rng(1)
    games = np.array([rng.normal(size=(3, 4)) * scale for scale in (1.0, 4.0, 2.0)])
    np.testing.assert_allclose(statistic(*games, axis=0), by_hand(games))
    draws = by_hand(np.array(list(itertools.product(*map(all_draws, games)))))
    for edge, share in zip(band(list(games), statistic), (0.025, 0.975), strict=True):
        assert np.all(np.mean(draws < edge - 1e-9, axis=0) <= share + 0.015)
        assert np.all(np.mean(draws <= edge + 1e-9, axis=0) >= share - 0.015)


@pytest.mark.parametrize(
    ("seeds", "has_band"), [((1,), False), ((2,), False), ((3,), True), ((3, 2), False), ((3, 4), True)]
)
def test_a_band_needs_three_seeds_of_every_game(seeds, has_band):
    rng = np.random.default_rng(0)
    edges = band([rng.normal(size=(count, 2)) for count in seeds], median_of_means)
    assert [edge is not None for edge in edges] == [has_band] * 2


def test_grid_spans_what_every_curve_covers():
    grid = common_grid([np.array([0.0, 50.0, 100.0]), np.array([10.0, 20.0, 30.0, 120.0])])
    np.testing.assert_allclose(np.diff(grid), 90 / 299)
    assert (grid[0], grid[-1]) == (10, 100)
    assert list(common_grid([np.array([1.0, 2.0]), np.array([2.0, 4.0])])) == [2.0]
    assert not len(common_grid([np.array([1.0, 2.0]), np.array([3.0, 4.0])]))


def group(*curves):
    (found,) = make_groups(*((make_record(str(i)), curve) for i, curve in enumerate(curves)))
    return found


def test_seeds_go_to_their_ends_and_the_mean_to_the_first_of_them():
    runs = group(make_curve([0, 10, 20], [0, 10, 40]), make_curve([0, 30], [0, 0]))
    mean, *seeds = group_lines(runs, "env_frames")
    assert [(line.x[-1], line.is_seed) for line in seeds] == [(20, True), (30, True)]
    assert (mean.x[0], mean.x[-1]) == (0, 20)
    np.testing.assert_allclose(np.interp([0, 10, 20], mean.x, mean.y), [0, 5, 20], atol=0.1)
    assert mean.low is None and not mean.is_seed


def test_one_seed_is_its_own_mean_and_seeds_apart_have_none():
    curves = make_curve([0, 10], [1, 2]), make_curve([20, 30], [3, 4])
    for some in (curves[:1], curves):
        found = group_lines(group(*some), "seconds")
        assert [list(line.y) for line in found] == [list(curve.value) for curve in some]
        assert not any(line.is_seed for line in found)


@pytest.mark.parametrize(("axis", "end"), [("env_frames", 10), ("seconds", 0.01)])
@pytest.mark.parametrize("statistic", [median_of_means, interquartile_mean])
def test_aggregates_go_as_far_as_all_games(statistic, axis, end):
    games = [[make_curve([0, 10], [0, 20])], [make_curve([0, 10, 20], [0, 40, 90])]]
    line = summary(games, statistic, axis)
    np.testing.assert_allclose(line.x, np.linspace(0, end, 300))
    np.testing.assert_allclose(line.y, np.linspace(0, 30, 300))


@pytest.mark.parametrize(("axis", "what"), [("env_frames", "frames"), ("seconds", "time")])
def test_no_range_in_common_is_one_sentence(axis, what):
    games = [[make_curve([1, 2], [1, 2])], [make_curve([3, 4], [1, 2])]]
    with pytest.raises(ValueError, match=rf"no range of {what} in common.*wait until") as caught:
        summary(games, median_of_means, axis)
    assert "\n" not in str(caught.value)
