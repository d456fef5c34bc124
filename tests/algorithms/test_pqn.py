"""PQN by itself: what it prepares of a rollout, and what its loss computes from that."""

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.algorithms.pqn import PQN
from seed_rl.algorithms.pqn_config import PQNConfig
from tests.algorithms.rollouts import B, T, loss_of, maker, rollout, twenty_updates, unacted

make = maker(PQN, PQNConfig)


def returns(sample, lambda_, discounting, limit):
    """One transition after the other, from the end."""
    best = sample.agent.info["q_values"].numpy().max(-1)
    rewards, done, truncated = (x.numpy() for x in sample.env[:3])
    rewards, found = np.clip(rewards, -limit, limit), np.zeros((T, B))
    for b in range(B):
        following = best[T, b]
        for t in reversed(range(T)):
            if truncated[t, b]:
                following = best[t, b]
            else:
                mixed = lambda_ * following + (1 - lambda_) * best[t + 1, b]
                following = rewards[t + 1, b] + (0.0 if done[t + 1, b] else discounting * mixed)
            found[t, b] = following
    return found


@pytest.mark.parametrize("lstm_size", [0, 8])
def test_targets_of_twenty_updates_against_numpy(lstm_size):
    """Lambda-returns of the values when acting, also of the last step, which has not been acted on."""
    algorithm = make(lstm_size=lstm_size, lambda_=0.7, discounting=0.9, max_abs_reward=0.5)
    for sample, prepared in twenty_updates(algorithm):
        assert prepared.env.reward.shape == ((T, B) if lstm_size else (1, T * B))
        targets = np.reshape(prepared.agent.info["target"], (T, B))
        np.testing.assert_allclose(targets, returns(sample, 0.7, 0.9, 0.5), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("lstm_size", [0, 8])
def test_the_loss_against_numpy(lstm_size):
    """Nothing has been trained yet, so the values are still those of acting."""
    algorithm = make(lstm_size=lstm_size)
    sample = rollout(algorithm)
    prepared = algorithm.prepare(unacted(sample))
    q_values, actions = sample.agent.info["q_values"].numpy()[:-1], sample.agent.action.numpy()[:-1]
    taken = np.take_along_axis(q_values, actions[..., np.newaxis], -1)[..., 0]
    errors = np.reshape(prepared.agent.info["target"], (T, B)) - taken
    valid = ~sample.env.truncated.numpy()[:-1]
    expected = np.where(valid, 0.5 * errors**2, 0.0)
    expected = expected.sum(0) / valid.sum(0) if lstm_size else expected.reshape(-1)
    np.testing.assert_allclose(loss_of(algorithm, prepared), expected, rtol=1e-3, atol=1e-4)


def test_epsilon_falls_over_a_part_of_the_run():
    algorithm = make(initial_epsilon=0.8, final_epsilon=0.2, epsilon_fraction=0.5)
    for progress, epsilon in ((0.0, 0.8), (0.25, 0.5), (0.5, 0.2), (1.0, 0.2)):
        algorithm.after_update(tf.constant(1, tf.int64), tf.constant(progress))
        np.testing.assert_allclose(algorithm.policy.epsilons(tf.range(3)), epsilon, rtol=1e-6)
