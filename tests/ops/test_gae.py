import numpy as np
import pytest
import tensorflow as tf

from seed_rl.ops.gae import gae

T, B = 9, 4


def reference(rewards, discounts, values, valid, lambda_):
    """The exponentially weighted sum of temporal differences, one start after the other."""
    advantages = np.zeros((T, B))
    for b in range(B):
        for start in range(T):
            weight = 1.0
            for t in range(start, T):
                if not valid[t, b]:
                    break
                delta = rewards[t, b] + discounts[t, b] * values[t + 1, b] - values[t, b]
                advantages[start, b] += weight * delta
                weight *= discounts[t, b] * lambda_
    return advantages


def inputs(seed=0):
    rng = np.random.default_rng(seed)
    done, valid = rng.random((T, B)) < 0.2, rng.random((T, B)) > 0.2
    normal = lambda *shape: rng.normal(size=shape).astype(np.float32)  # noqa: E731
    return normal(T, B), np.where(done, 0, 0.9).astype(np.float32), normal(T + 1, B), valid


@pytest.mark.parametrize("lambda_", [1.0, 0.7, 0.0])
@pytest.mark.parametrize("seed", range(3))
def test_equals_the_sum_of_temporal_differences(lambda_, seed):
    arrays = inputs(seed)
    assert not arrays[3].all()
    got = gae(*map(tf.constant, arrays), lambda_).numpy()
    np.testing.assert_allclose(got, reference(*arrays, lambda_), rtol=1e-5, atol=1e-5)


def test_a_truncated_episode_bootstraps_and_a_terminated_one_does_not():
    """Three transitions: the first ends its episode one way or the other."""
    rewards, values = tf.constant([[1.0], [2.0], [4.0]]), tf.constant([[0.0], [10.0], [0.0], [0.0]])
    everything = tf.ones([3, 1], tf.bool)
    terminated = gae(rewards, tf.constant([[0.0], [1.0], [1.0]]), values, everything, 1.0)
    assert terminated[0, 0].numpy() == 1.0
    # Step 1 is the last of the first episode; its value is 10, and step 2 is the reset.
    valid = tf.constant([[True], [False], [True]])
    truncated = gae(rewards, tf.ones([3, 1]), values, valid, 1.0)
    np.testing.assert_array_equal(truncated, [[11.0], [0.0], [4.0]])


def test_no_gradient_flows():
    rewards, discounts, values, valid = map(tf.constant, inputs())
    with tf.GradientTape() as tape:
        tape.watch(values)
        total = tf.reduce_sum(gae(rewards, discounts, values, valid, 0.9))
    assert tape.gradient(total, values) is None
