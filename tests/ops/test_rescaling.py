import numpy as np
import pytest
import tensorflow as tf

from seed_rl.ops.rescaling import clip_reward, rescale, soft_asymmetric, undo_rescale

X = np.concatenate([[0.0], np.logspace(-3, 5, 60), -np.logspace(-3, 5, 60)])


@pytest.mark.parametrize("epsilon", [1e-3, 1e-2])
def test_one_undoes_the_other(epsilon):
    x = tf.constant(X, tf.float32)
    np.testing.assert_allclose(undo_rescale(rescale(x, epsilon), epsilon), X, rtol=2e-4, atol=2e-6)
    np.testing.assert_allclose(rescale(undo_rescale(x, epsilon), epsilon), X, rtol=2e-4, atol=2e-6)


REWARDS = np.array([-20.0, -1.0, -0.1, 0.0, 0.1, 1.0, 20.0], np.float32)


def test_rewards_are_clipped_or_squeezed():
    np.testing.assert_allclose(clip_reward(REWARDS, 0.5), [-0.5, -0.5, -0.1, 0, 0.1, 0.5, 0.5])
    np.testing.assert_array_equal(clip_reward(REWARDS, 0), REWARDS)
    expected = [(0.3 if r < 0 else 1.0) * 5 * np.tanh(r / 5) for r in REWARDS]
    np.testing.assert_allclose(soft_asymmetric(REWARDS), expected, rtol=1e-5)
