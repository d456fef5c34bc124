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


@pytest.mark.parametrize("allowed", [None, [False, True, True, True]])
@pytest.mark.parametrize("epsilon", [0.0, 0.4, 1.0])
def test_epsilon_is_the_share_of_random_actions_and_all_are_allowed(epsilon, allowed):
    tf.random.set_seed(0)
    rows, mask = 20_000, allowed or [True] * 4
    q_values = tf.tile([np.where(mask, np.float32([0.0, 3.0, 1.0, 2.0]), -1e8)], [rows, 1])
    masks = allowed and tf.tile([allowed], [rows, 1])
    actions = epsilon_greedy(q_values, tf.fill([rows], epsilon), masks)
    expected = epsilon * np.array(mask) / sum(mask) + (1 - epsilon) * np.eye(4)[1]
    shares = np.bincount(actions, minlength=4) / rows
    np.testing.assert_allclose(shares, expected, atol=0.012)
    assert not shares[expected == 0].any()
