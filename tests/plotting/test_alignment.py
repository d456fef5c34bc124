"""Curves of different seeds on a common grid."""

import numpy as np
import pytest

from seed_rl.plotting.alignment import common_grid, interpolate


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
