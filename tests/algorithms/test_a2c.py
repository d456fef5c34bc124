"""A2C by itself: the gradient of n-step returns, on whole rollouts."""

import numpy as np
import pytest

from seed_rl.algorithms.a2c import A2C
from seed_rl.algorithms.a2c_config import A2CConfig
from seed_rl.experience.experience_config import WholeRolloutsConfig
from tests.algorithms.rollouts import ACTIONS, B, T, loss_of, maker, rollout, unacted

make = maker(A2C, A2CConfig, lstm_size=8)


def test_the_loss_against_numpy():
    algorithm = make(discounting=0.9, entropy_cost=0.02, baseline_cost=0.7)
    sample = rollout(algorithm)
    values, logits = (sample.agent.info[x].numpy() for x in ("baseline", "policy_parameters"))
    rewards, done, truncated = (x.numpy() for x in sample.env[:3])
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    expected = np.zeros(B)
    for b in range(B):
        terms, following = [], values[T, b]
        for t in reversed(range(T)):
            if truncated[t, b]:
                following = values[t, b]
                continue
            following = rewards[t + 1, b] + (0.0 if done[t + 1, b] else 0.9 * following)
            advantage = following - values[t, b]
            entropy = -(np.exp(log_p[t, b]) * log_p[t, b]).sum()
            gain = log_p[t, b, sample.agent.action[t, b]] * advantage
            terms.append(-gain + 0.7 * 0.5 * advantage**2 - 0.02 * entropy)
        expected[b] = np.mean(terms)
    np.testing.assert_allclose(loss_of(algorithm, unacted(sample)), expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("action", ACTIONS)
def test_every_action_space_has_a_loss_on_whole_rollouts(action):
    algorithm = make(action, normalize_advantages=True)
    losses = loss_of(algorithm, rollout(algorithm, action)).numpy()
    assert losses.shape == (B,) and np.isfinite(losses).all()
    assert isinstance(algorithm.experience, WholeRolloutsConfig) and algorithm.epochs is None
