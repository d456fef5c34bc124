import numpy as np
import pytest
import tensorflow as tf

from seed_rl.ops.rescaling import rescale, undo_rescale

X = np.concatenate([[0.0], np.logspace(-3, 5, 60), -np.logspace(-3, 5, 60)])


@pytest.mark.parametrize("epsilon", [1e-3, 1e-2])
def test_one_undoes_the_other(epsilon):
    x = tf.constant(X, tf.float32)
    np.testing.assert_allclose(undo_rescale(rescale(x, epsilon), epsilon), X, rtol=2e-4, atol=2e-6)
    np.testing.assert_allclose(rescale(undo_rescale(x, epsilon), epsilon), X, rtol=2e-4, atol=2e-6)
