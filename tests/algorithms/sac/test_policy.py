"""Actions of SAC: at random before it learns, then by its policy; without exploration in evaluation."""

import numpy as np
import pytest
import scipy.special
import scipy.stats
import tensorflow as tf

from tests.algorithms.sac.transitions import BOX, DISCRETE, UNBOUNDED, VECTOR, make

N = 4000


def act(algorithm, action, greedy=False, first_env=0):
    """Actions `[N, ...]` in the same state."""
    observation = tf.ones([N, *VECTOR.shape])
    env = algorithm._actor.trunk.example()[1]._replace(observation=observation)
    env = env._replace(**{k: tf.repeat(getattr(env, k)[0], N) for k in ("reward", "done", "truncated")})
    choose = algorithm.policy.act_greedy if greedy else algorithm.policy.act
    env_ids = tf.fill([N], first_env)
    output, state = choose(tf.constant(action.zeros(N)), env, (), env_ids)
    assert state == () and output.action.dtype.name == action.dtype
    assert output.action.shape == (N, *action.shape)
    return output.action.numpy(), output.info["policy_parameters"]


def learned(algorithm):
    algorithm.after_update(tf.constant(1, tf.int64), tf.constant(0.0))
    return algorithm


def test_a_box_is_filled_evenly_before_the_first_update():
    actions, _ = act(make(BOX), BOX)
    for component, low, high in zip(actions.T, BOX.minimum, BOX.maximum, strict=True):
        assert scipy.stats.kstest(component, "uniform", (low, high - low)).pvalue > 1e-3
        assert low <= component.min() and component.max() <= high


def test_discrete_actions_come_evenly_before_the_first_update():
    actions, _ = act(make(DISCRETE), DISCRETE)
    assert scipy.stats.chisquare(np.bincount(actions, minlength=4)).pvalue > 1e-3


@pytest.mark.parametrize(
    ("action", "algorithm"),
    [
        (BOX, lambda: learned(make(BOX))),
        (BOX, lambda: make(BOX, random_start=False)),
        (UNBOUNDED, lambda: make(UNBOUNDED)),  # There is no uniform distribution.
        (DISCRETE, lambda: learned(make(DISCRETE))),
    ],
)
def test_otherwise_actions_come_from_the_policy(action, algorithm):
    algorithm = algorithm()
    actions, parameters = act(algorithm, action)
    distribution = algorithm._actions.distribution
    if action.is_discrete:
        logits = parameters[0].numpy().astype(np.float64)
        expected = N * scipy.special.softmax(logits)
        assert scipy.stats.chisquare(np.bincount(actions, minlength=4), expected).pvalue > 1e-3
        return
    below = (actions < distribution.mode(parameters).numpy()).mean(0)
    np.testing.assert_allclose(below, 0.5, atol=0.04)  # Five standard deviations.
    assert (actions.std(0) > 1e-3).all()


@pytest.mark.parametrize("action", [BOX, UNBOUNDED, DISCRETE], ids=str)
@pytest.mark.parametrize("is_learned", [False, True])
def test_evaluation_takes_the_mode(action, is_learned):
    """Greedily, in environments that only evaluate, and in those beyond the run's."""
    algorithm = make(action, num_envs=6, num_eval_envs=2)
    if is_learned:
        learned(algorithm)
    for arguments in ({"greedy": True}, {"first_env": 4}, {"first_env": 6}):
        actions, parameters = act(algorithm, action, **arguments)
        np.testing.assert_array_equal(actions, algorithm._actions.distribution.mode(parameters))
    assert len(np.unique(act(algorithm, action, first_env=3)[0], axis=0)) > 1
