import numpy as np
import tensorflow as tf

from seed_rl.ops.masked import masked_normalize


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
