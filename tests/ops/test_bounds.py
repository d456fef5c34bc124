import numpy as np
import pytest

from seed_rl.ops.bounds import bounds_of
from seed_rl.types import ArraySpec


def test_each_component_has_its_own_bounds():
    inf, most = np.inf, np.finfo(np.float32).max
    bounds = bounds_of(ArraySpec((6,), "float32", (0, 100, -inf, -inf, 3, -most), (8, inf, -7, inf, 3, most)))
    np.testing.assert_array_equal(bounds.middle, [4, 101, -8, 0, 3, 0])
    np.testing.assert_array_equal(bounds.half_range, np.float32([4, 1, 1, 1, 1, most]))
    np.testing.assert_array_equal(bounds.is_bounded, [1, 0, 0, 0, 0, 1])
    np.testing.assert_array_equal(bounds.is_fixed, [0, 0, 0, 0, 1, 0])


def test_a_lowest_value_above_the_highest_is_refused_by_its_component():
    with pytest.raises(ValueError, match=r"Component 1 .* 2 to 1"):
        bounds_of(ArraySpec((2,), "float32", (0.0, 2.0), (1.0, 1.0)))
