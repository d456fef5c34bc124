import numpy as np
import pytest
import tensorflow as tf

from seed_rl.ops.means import masked_mean, masked_normalize


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_the_mean_is_over_what_the_mask_shows(axis):
    rng = np.random.default_rng(0)
    x, mask = rng.normal(size=(6, 5)).astype(np.float32), rng.random((6, 5)) < 0.5
    mask[0, 0] = mask[1, 1] = mask[2, 2] = mask[3, 3] = mask[4, 4] = mask[5, 0] = True
    expected = np.ma.masked_array(x, ~mask).mean(axis)
    np.testing.assert_allclose(masked_mean(x, mask, axis), expected, rtol=1e-5)


def test_against_numpy_where_the_mask_is_set_and_zero_elsewhere():
    rng = np.random.default_rng(0)
    x = (3 + 5 * rng.normal(size=(6, 4))).astype(np.float32)
    mask = rng.random((6, 4)) < 0.7
    got = masked_normalize(tf.constant(x), tf.constant(mask)).numpy()
    kept = x[mask]
    np.testing.assert_allclose(got[mask], (kept - kept.mean()) / kept.std(), rtol=1e-4, atol=1e-5)
    assert not mask.all()
    assert (got[~mask] == 0).all()


def test_equal_advantages_become_zero():
    got = masked_normalize(tf.fill([2, 3], 7.0), tf.ones([2, 3], tf.bool)).numpy()
    np.testing.assert_array_equal(got, np.zeros((2, 3)))
