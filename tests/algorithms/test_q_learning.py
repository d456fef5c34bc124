import numpy as np
import pytest
import tensorflow as tf

from seed_rl.algorithms.q_learning import annealed_epsilon, epsilon_greedy, training_epsilons


@pytest.mark.parametrize("num_envs", [2, 3, 610])
def test_epsilons_against_the_table(num_envs):
    found = training_epsilons(num_envs)
    assert found.dtype == np.float32
    expected = [0.4 ** (1 + 7 * i / (num_envs - 1)) for i in range(num_envs)]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_epsilon_is_the_share_of_random_actions():
    tf.random.set_seed(0)
    rows, epsilons = 20_000, np.array([0.0, 0.4, 1.0], np.float32)
    q_values = tf.tile([[0.0, 3.0, 1.0, 2.0]], [3 * rows, 1])
    action = epsilon_greedy(q_values, tf.repeat(epsilons, rows)).numpy().reshape(3, rows)
    for epsilon, actions in zip(epsilons, action, strict=True):
        shares = np.bincount(actions, minlength=4) / rows
        expected = np.full(4, epsilon / 4)
        expected[1] += 1 - epsilon
        np.testing.assert_allclose(shares, expected, atol=0.012)


@pytest.mark.parametrize(
    ("progress", "fraction", "expected"),
    [
        (0.0, 0.2, 1.0),
        (0.05, 0.2, 0.775),
        (0.2, 0.2, 0.1),
        (0.9, 0.2, 0.1),
        (0.5, 1.0, 0.55),
        (0.0, 0.0, 0.1),
    ],
)
def test_epsilon_falls_in_a_line_and_then_stays(progress, fraction, expected):
    found = annealed_epsilon(tf.constant(progress), 1.0, 0.1, fraction)
    assert found.dtype == tf.float32
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_random_actions_are_drawn_from_the_allowed_ones():
    tf.random.set_seed(0)
    rows, allowed = 20_000, [True, False, True, True]
    q_values = tf.tile([[0.0, -1e8, 1.0, 2.0]], [rows, 1])
    action = epsilon_greedy(q_values, tf.fill([rows], 0.6), tf.tile([allowed], [rows, 1]))
    shares = np.bincount(action, minlength=4) / rows
    np.testing.assert_allclose(shares, [0.2, 0.0, 0.2, 0.6], atol=0.012)
    assert shares[1] == 0
