import numpy as np
import pytest
import scipy.stats
import tensorflow as tf

from seed_rl.ops.normal_cdf import log_normal_cdf


@pytest.mark.parametrize("x", [-300.0, -30.0, -6.01, -5.99, -1.0, 0.0, 3.0, 20.0])
def test_log_normal_cdf_and_its_slope(x):
    point = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(point)
        value = log_normal_cdf(point)
    expected = scipy.stats.norm.logcdf(x)
    np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-6)
    slope = np.exp(scipy.stats.norm.logpdf(x) - expected)
    np.testing.assert_allclose(tape.gradient(value, point), slope, rtol=2e-3, atol=1e-6)
