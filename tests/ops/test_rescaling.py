import numpy as np
import pytest
import tensorflow as tf

from seed_rl.ops.rescaling import rescale, undo_rescale

X = np.concatenate([[0.0], np.logspace(-3, 5, 60), -np.logspace(-3, 5, 60)])


def slow_rescale(x, epsilon):
    return np.sign(x) * (np.sqrt(np.abs(x) + 1) - 1) + epsilon * x


def slow_undo(x, epsilon):
    """Pohlen et al., 2018, proposition A.2, in float64."""
    root = np.sqrt(1 + 4 * epsilon * (np.abs(x) + 1 + epsilon))
    return np.sign(x) * (((root - 1) / (2 * epsilon)) ** 2 - 1)


@pytest.mark.parametrize("epsilon", [1e-3, 1e-2])
def test_against_numpy(epsilon):
    x = tf.constant(X, tf.float32)
    np.testing.assert_allclose(rescale(x, epsilon), slow_rescale(X, epsilon), rtol=1e-6)
    np.testing.assert_allclose(undo_rescale(x, epsilon), slow_undo(X, epsilon), rtol=2e-4, atol=1e-6)


@pytest.mark.parametrize("epsilon", [1e-3, 1e-2])
def test_one_undoes_the_other(epsilon):
    x = tf.constant(X, tf.float32)
    np.testing.assert_allclose(undo_rescale(rescale(x, epsilon), epsilon), X, rtol=2e-4, atol=2e-6)
    np.testing.assert_allclose(rescale(undo_rescale(x, epsilon), epsilon), X, rtol=2e-4, atol=2e-6)
