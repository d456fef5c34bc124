import numpy as np
import pytest

from seed_rl.ops.bounds import bounds_of
from seed_rl.types import ArraySpec


def test_the_middle_and_half_of_each_range():
    bounds = bounds_of(ArraySpec((2, 1), "float32", (-2.0, 1.0), (2.0, 5.0)))
    np.testing.assert_array_equal(bounds.middle, np.array([0, 3], np.float32))
    np.testing.assert_array_equal(bounds.half_range, np.array([2, 2], np.float32))


def test_actions_without_bounds_are_left_as_they_are():
    bounds = bounds_of(ArraySpec((3,), "float32"))
    np.testing.assert_array_equal(bounds.middle, np.zeros(3))
    np.testing.assert_array_equal(bounds.half_range, np.ones(3))


def test_an_empty_range_is_refused():
    with pytest.raises(ValueError, match="needs lowest values below its highest values"):
        bounds_of(ArraySpec((2,), "float32", (0.0, 1.0), (1.0, 1.0)))
