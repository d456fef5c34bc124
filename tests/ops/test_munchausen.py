import numpy as np
import tensorflow as tf

from seed_rl.ops.munchausen import scaled_log_policy


def test_large_values_and_a_small_temperature_stay_finite_and_precise():
    q = tf.constant([[1e6, 1e6 - 1.0, -1e6], [0.0, -0.03, -3.0]])
    found = scaled_log_policy(q, 0.03)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found[0, :2], [0.0, -1.0], atol=1e-5)
    np.testing.assert_allclose(tf.reduce_sum(tf.exp(found / 0.03), -1), [1.0, 1.0], rtol=1e-5)
