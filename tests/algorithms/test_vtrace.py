"""V-trace by itself: what it stores lines up with what its loss computes."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from seed_rl.algorithms.base import LOSS
from seed_rl.algorithms.vtrace import VTrace
from seed_rl.algorithms.vtrace_config import VTraceConfig
from seed_rl.types import AgentOutput
from tests.algorithms.objectives import loss_of, variables_of
from tests.algorithms.rollouts import ACTIONS, DISCRETE, B, T, rollout, spec
from tests.selection import mostly_slow


def make(action=DISCRETE, **options):
    keras.utils.set_random_seed(0)
    options = {"unroll_length": T, "lstm_size": 8, "frame_stack": 4, "mlp_sizes": "16"} | options
    return VTrace(VTraceConfig.of(**options), spec(action), B)


def shake(algorithm):
    """Weights that make the policy depend on all of its inputs, far from uniform; the same in each run."""
    tf.random.set_seed(0)
    for variable in variables_of(algorithm):
        noise = tf.random.stateless_normal(variable.shape, [1, 2])
        variable.assign(noise * 4 / variable.shape[0] ** 0.5)


def gradients(algorithm, sample):
    with tf.GradientTape() as tape:
        loss = loss_of(algorithm, sample)
        total = tf.reduce_mean(loss)
    return loss, tape.gradient(total, variables_of(algorithm))


@pytest.mark.parametrize("action_spec", ACTIONS, ids=str)
@pytest.mark.parametrize(
    "lstm_size,frame_stack", mostly_slow([(8, 4), (0, 4), (8, 1), (0, 1)], [(8, 4), (0, 1)])
)
def test_the_loss_sees_the_policy_that_acted(action_spec, lstm_size, frame_stack):
    """KL(old|new) is 0 on unchanged weights; the next test shows that a slip by a step makes it positive."""
    algorithm = make(action_spec, lstm_size=lstm_size, frame_stack=frame_stack)
    shake(algorithm)
    sample = rollout(algorithm, action_spec)
    by_objective, priority, metrics = algorithm.losses(sample)
    assert by_objective[LOSS].shape == (B,)
    assert priority is None
    assert float(metrics["kl_old_new"]) == pytest.approx(0, abs=1e-5)
    assert float(metrics["clipped_rho"]) == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("wrong", ["state", "prev_action", "observation", "reward", "done"])
def test_a_slip_shows_in_the_kl(wrong):
    algorithm = make()
    shake(algorithm)
    sample = rollout(algorithm)
    if wrong == "state":
        sample = sample._replace(initial_state=algorithm.policy.initial_state(B))
    elif wrong == "prev_action":
        sample = sample._replace(prev_action=tf.roll(sample.prev_action, 1, 0))
    else:
        array = getattr(sample.env, wrong)
        sample = sample._replace(env=sample.env._replace(**{wrong: tf.roll(array, 1, 0)}))
    assert float(algorithm.losses(sample).metrics["kl_old_new"]) > 2e-4


def test_an_unroll_without_experience_has_no_gradient():
    algorithm = make()
    sample = rollout(algorithm)
    sample = sample._replace(env=sample.env._replace(truncated=tf.ones([T + 1, B], tf.bool)))
    loss, grads = gradients(algorithm, sample)
    np.testing.assert_array_equal(loss, np.zeros(B))
    assert all((gradient.numpy() == 0).all() for gradient in grads)


def test_loss_against_numpy():
    algorithm = make(lstm_size=0, baseline_cost=0.7, entropy_cost=0.3, kl_cost=0.2, max_abs_reward=0.5)
    sample = rollout(algorithm)
    sample = sample._replace(env=sample.env._replace(truncated=tf.zeros([T + 1, B], tf.bool)))
    # Behaviour and learned policy differ, but all importance weights are clipped to 1.
    behaviour = np.random.default_rng(1).normal(size=(T + 1, B, 4)).astype(np.float32)
    output, _ = algorithm._network.unroll(sample.prev_action, sample.env, sample.initial_state)
    new = log_softmax(output.policy_parameters.numpy())[:-1]
    action = behaviour.argmin(-1).astype(np.int32)
    sample = sample._replace(agent=AgentOutput(action, {"policy_parameters": tf.constant(behaviour)}))
    old = log_softmax(behaviour)[:-1]
    pick = lambda x: np.take_along_axis(x, action[:-1, :, None], -1)[..., 0]  # noqa: E731
    assert (pick(new) > pick(old)).all()

    values = output.baseline.numpy()
    rewards = np.clip(sample.env.reward.numpy()[1:], -0.5, 0.5)
    discounts = 0.99 * (1 - sample.env.done.numpy()[1:])
    returns = np.concatenate([np.zeros((T, B)), values[-1:]])
    for t in reversed(range(T)):
        returns[t] = rewards[t] + discounts[t] * returns[t + 1]
    errors = returns[:-1] - values[:-1]
    entropy = -(np.exp(new) * new).sum(-1)
    kl = (np.exp(old) * (old - new)).sum(-1)
    expected = -pick(new) * errors + 0.7 * 0.5 * errors**2 - 0.3 * entropy + 0.2 * kl
    np.testing.assert_allclose(loss_of(algorithm, sample), expected.mean(0), rtol=1e-4)


def log_softmax(x):
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def test_soft_asymmetric_rewards_reach_the_targets():
    algorithms = [
        make(reward_clipping=mode, use_last_action_and_reward=False)
        for mode in ("soft_asymmetric", "max_abs")
    ]
    for variable, source in zip(variables_of(algorithms[1]), variables_of(algorithms[0]), strict=True):
        variable.assign(source)
    sample = rollout(algorithms[0])
    reward = sample.env.reward
    squeezed = 5 * tf.tanh(reward / 5) * tf.where(reward < 0, 0.3, 1.0)
    same = sample._replace(env=sample.env._replace(reward=squeezed))
    np.testing.assert_allclose(loss_of(algorithms[0], sample), loss_of(algorithms[1], same), rtol=1e-4)
    assert np.abs(loss_of(algorithms[0], sample) - loss_of(algorithms[1], sample)).max() > 1e-3


def test_the_step_that_a_truncation_cuts_off_is_not_experience():
    algorithm = make(lstm_size=0, frame_stack=1)
    sample = rollout(algorithm)
    done, truncated = np.zeros((T + 1, B), bool), np.zeros((T + 1, B), bool)
    done[3], truncated[2] = True, True
    sample = sample._replace(
        env=sample.env._replace(done=tf.constant(done), truncated=tf.constant(truncated))
    )
    # Neither the action at the truncated step, nor the reward of the reset, means anything to the loss.
    action = sample.agent.action.numpy()
    action[2] = (action[2] + 1) % 4
    reward = sample.env.reward.numpy()
    reward[3] += 100.0
    other = sample._replace(
        agent=sample.agent._replace(action=tf.constant(action)),
        env=sample.env._replace(reward=tf.constant(reward)),
    )
    (loss, grads), (other_loss, other_grads) = gradients(algorithm, sample), gradients(algorithm, other)
    np.testing.assert_allclose(loss, other_loss, rtol=1e-6)
    for gradient, other_gradient in zip(grads, other_grads, strict=True):
        np.testing.assert_allclose(gradient, other_gradient, atol=1e-6)
    # While the reward that came with the last observation does.
    reward[2] += 100.0
    changed = sample._replace(env=sample.env._replace(reward=tf.constant(reward)))
    assert np.abs(loss_of(algorithm, changed) - loss).min() > 1
