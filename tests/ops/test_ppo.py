import numpy as np
import pytest
import tensorflow as tf

from seed_rl.ops.ppo import clipped_policy_loss, value_loss


def test_against_the_papers_minimum():
    rng = np.random.default_rng(0)
    log_ratio, advantages = rng.normal(0, (0.5, 1.0), (200, 2)).astype(np.float32).T
    got = clipped_policy_loss(tf.constant(log_ratio), tf.constant(advantages), 0.2).numpy()
    for x, a, loss in zip(log_ratio, advantages, got, strict=True):
        ratio = np.exp(x)
        objective = min(ratio * a, min(max(ratio, 0.8), 1.2) * a)
        assert loss == pytest.approx(-objective, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize(
    ("ratio", "advantage", "moves"),
    [(1.5, 1.0, False), (0.5, 1.0, True), (1.5, -1.0, True), (0.5, -1.0, False), (1.1, 1.0, True)],
)
def test_only_a_ratio_that_gained_enough_has_no_gradient(ratio, advantage, moves):
    """Figure 1 of the paper."""
    log_ratio = tf.constant([np.log(ratio)], tf.float32)
    with tf.GradientTape() as tape:
        tape.watch(log_ratio)
        loss = clipped_policy_loss(log_ratio, tf.constant([advantage]), 0.2)
    gradient = tape.gradient(loss, log_ratio).numpy()[0]
    assert gradient == pytest.approx(-ratio * advantage if moves else 0.0, rel=1e-5)


def test_the_value_loss_is_half_the_square_without_a_limit():
    got = value_loss(tf.constant([1.0, 2.0]), tf.constant([3.0, -1.0]), tf.zeros([2]), None)
    np.testing.assert_array_equal(got, [2.0, 4.5])


@pytest.mark.parametrize(
    ("value", "target", "expected"),
    [(0.1, 1.0, 0.81), (0.5, 1.0, 0.64), (0.5, 0.3, 0.04), (-1.0, 0.0, 1.0)],
)
def test_a_value_that_moves_far_is_judged_as_if_it_had_not(value, target, expected):
    """From an old value of 0, with a limit of 0.2."""
    got = value_loss(tf.constant([value]), tf.constant([target]), tf.constant([0.0]), 0.2).numpy()[0]
    assert got == pytest.approx(expected / 2, rel=1e-5)
