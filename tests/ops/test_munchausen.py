import numpy as np
import pytest
import tensorflow as tf

from seed_rl.ops.munchausen import munchausen_bonus, scaled_log_policy, soft_value

B, A, K = 8, 4, 3


def slow_policy(q, temperature):
    """softmax(q / tau) of one state, in float64."""
    weights = np.exp((q - q.max()) / temperature)
    return weights / weights.sum()


def random_values(seed=0):
    return np.random.default_rng(seed).normal(0, 0.1, (B, A)).astype(np.float32)


@pytest.mark.parametrize("temperature", [0.03, 0.5])
def test_the_bonus_against_numpy(temperature):
    q, action = random_values(), np.arange(B, dtype=np.int32) % A
    found = munchausen_bonus(tf.constant(q), tf.constant(action), 0.9, temperature, -0.1)
    expected = []
    for b in range(B):
        log_policy = temperature * np.log(slow_policy(q[b].astype(np.float64), temperature)[action[b]])
        expected.append(0.9 * min(max(log_policy, -0.1), 0.0))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-7)
    assert min(expected) == pytest.approx(-0.09)  # Some are clipped.
    if temperature == 0.03:
        assert max(expected) > -0.08


@pytest.mark.parametrize("temperature", [0.03, 0.5])
def test_the_soft_value_against_numpy(temperature):
    q, returns = random_values(), np.random.default_rng(1).normal(size=(B, A, K)).astype(np.float32)
    found = soft_value(tf.constant(returns), tf.constant(q), temperature)
    expected = np.zeros((B, K))
    for b in range(B):
        policy = slow_policy(q[b].astype(np.float64), temperature)
        for a in range(A):
            if policy[a] > 0:
                expected[b] += policy[a] * (returns[b, a] - temperature * np.log(policy[a]))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_large_values_and_a_small_temperature_stay_finite_and_precise():
    q = tf.constant([[1e6, 1e6 - 1.0, -1e6], [0.0, -0.03, -3.0]])
    found = scaled_log_policy(q, 0.03)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found[0, :2], [0.0, -1.0], atol=1e-5)
    np.testing.assert_allclose(tf.reduce_sum(tf.exp(found / 0.03), -1), [1.0, 1.0], rtol=1e-5)
