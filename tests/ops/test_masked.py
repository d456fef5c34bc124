import numpy as np
import pytest

from seed_rl.ops.masked import masked_mean


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_the_mean_is_over_what_the_mask_shows(axis):
    rng = np.random.default_rng(0)
    x, mask = rng.normal(size=(6, 5)).astype(np.float32), rng.random((6, 5)) < 0.5
    mask[0, 0] = mask[1, 1] = mask[2, 2] = mask[3, 3] = mask[4, 4] = mask[5, 0] = True
    expected = np.ma.masked_array(x, ~mask).mean(axis)
    np.testing.assert_allclose(masked_mean(x, mask, axis), expected, rtol=1e-5)
