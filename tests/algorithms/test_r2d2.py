"""R2D2 by itself: its loss and priorities, what the stored state belongs to, targets, exploration."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from seed_rl.algorithms.base import LOSS
from seed_rl.algorithms.q_learning import copy_weights
from seed_rl.algorithms.r2d2 import R2D2
from seed_rl.algorithms.r2d2_config import R2D2Config
from seed_rl.types import ArraySpec, EnvironmentSpec, Sample
from tests.algorithms import rollouts
from tests.algorithms.q_learning import (
    ACTION,
    MASKED,
    VECTOR,
    A,
    allowed_in,
    h,
    h_inverse,
    random_env,
    rows_like_the_first,
    shake,
    slow_transition,
)
from tests.algorithms.rollouts import loss_of
from tests.selection import mostly_slow

T, BURN_IN, B, ENDS = 7, 3, 4, 0.25
FRAME = ArraySpec((10, 9), "uint8")


def make(observation=FRAME, num_envs=B, action=ACTION, **options):
    """An algorithm with weights that make values depend on all inputs, and another target network."""
    keras.utils.set_random_seed(0)
    options = {
        "unroll_length": T,
        "burn_in": BURN_IN,
        "n_steps": 3,
        "lstm_size": 8,
        "frame_stack": 4 if observation is FRAME else 1,
        "mlp_sizes": "16",
        "head_size": 8,
    } | options
    return shake(R2D2(R2D2Config.of(**options), EnvironmentSpec(observation, action), num_envs), scale=3)


def play(algorithm, env, state):
    return rollouts.play(algorithm.policy.act, env, tf.zeros([B], tf.int32), state)


def random_sample(algorithm, seed=0, observation=FRAME):
    """An unroll that begins in the middle of episodes."""
    rng = np.random.default_rng(seed)
    num_before, num_steps = 5, algorithm.unroll.stored_steps
    env = random_env(rng, (num_before + num_steps, B), observation, ENDS)
    sample, states = play(algorithm, env, algorithm.policy.initial_state(B))
    steps = tf.nest.map_structure(lambda x: x[num_before:], (sample.prev_action, sample.env, sample.agent))
    return Sample(*steps, states[num_before], tf.ones([B]))


def q_values(network, sample, burn_in):
    """Q-values of a network for all stored steps at once; the burn-in's are then left out."""
    return network.unroll(sample.prev_action, sample.env, sample.initial_state)[0].numpy()[burn_in:]


def without_burn_in(nest, burn_in):
    return tf.nest.map_structure(lambda x: x.numpy()[burn_in:], nest)


def slow_errors(config, q, target_q, action, env):
    """Temporal differences [T, B] like the equations, one transition after the other."""
    epsilon = config.value_function_rescaling_epsilon
    q, target_q = q.astype(np.float64), target_q.astype(np.float64)
    errors = np.zeros((T, B))
    for b in range(B):
        for t in range(T):
            if env.truncated[t, b]:
                continue
            total, discount, step = slow_transition(config, env, t, T, b)
            value = h_inverse(target_q[step, b, q[step, b].argmax()], epsilon)
            errors[t, b] = h(total + discount * value, epsilon) - q[t, b, action[t, b]]
    return errors


def slow_priorities(config, errors, truncated):
    sizes = [abs(errors[~truncated[:-1, b], b]) for b in range(B)]
    return [config.eta * x.max() + (1 - config.eta) * x.mean() for x in sizes]


OTHERS = {"max_abs_reward": 1.0, "eta": 0.3, "discounting": 0.9, "value_function_rescaling_epsilon": 0.1}
MASKS = {"frame_stack": 1}
SETTINGS = [{"n_steps": 1}, {"n_steps": 3}, {"n_steps": 5}, {"burn_in": 0}, {"lstm_size": 0}, OTHERS, MASKS]


@pytest.mark.parametrize(
    "options", mostly_slow(SETTINGS, [{"n_steps": 3}, {"burn_in": 0}, OTHERS, MASKS]), ids=str
)
def test_loss_and_priorities_against_numpy(options):
    observation = MASKED if options is MASKS else FRAME
    algorithm = make(observation, **options)
    config, sample = algorithm._config, random_sample(algorithm, observation=observation)
    action, env = without_burn_in((sample.agent.action, sample.env), config.burn_in)
    assert env.truncated[:-1].any() and (env.done[1:-1] & ~env.truncated[:-2]).any()
    networks = algorithm._online, algorithm._target
    q = [q_values(network, sample, config.burn_in) for network in networks]
    if observation is MASKED:
        allowed = allowed_in(env)
        assert np.take_along_axis(allowed, action[..., None], -1).all() and not allowed.all()
        q = [np.where(allowed, x, -np.inf) for x in q]
    assert (q[0].argmax(-1) != q[1].argmax(-1)).any() and len(set(q[0].argmax(-1).flat)) > 1
    errors = slow_errors(config, *q, action, env)
    output = algorithm.losses(sample)
    np.testing.assert_allclose(output.by_objective[LOSS], 0.5 * (errors**2).sum(0), rtol=1e-3)
    np.testing.assert_allclose(output.priority, slow_priorities(config, errors, env.truncated), rtol=1e-3)
    valid = ~env.truncated[:-1]
    np.testing.assert_allclose(output.metrics["td_error"], abs(errors[valid]).mean(), rtol=1e-3)
    taken = np.take_along_axis(q[0][:-1], action[:-1, :, None], -1)[..., 0]
    np.testing.assert_allclose(output.metrics["q_value"], taken[valid].mean(), rtol=1e-3)
    assert abs(output.metrics["q_max"]) < 1e4
    # The loss needs nothing that replay does not keep.
    stored = sample._replace(agent=sample.agent._replace(info={}))
    np.testing.assert_array_equal(output.by_objective[LOSS], loss_of(algorithm, stored))

    acted = without_burn_in(sample.agent.info["q_values"], config.burn_in)
    expected = slow_priorities(config, slow_errors(config, acted, acted, action, env), env.truncated)
    arguments = (sample.env._replace(observation=()), sample.agent)
    signature = tf.nest.map_structure(
        lambda x: tf.TensorSpec([x.shape[0], None, *x.shape[2:]], x.dtype), arguments
    )
    found = tf.function(algorithm.initial_priority, input_signature=signature, autograph=False)(*arguments)
    assert found.dtype == tf.float32
    np.testing.assert_allclose(found, expected, rtol=1e-3)


def test_the_stored_state_is_that_of_the_first_step_and_not_that_after_the_burn_in():
    """A regression: the original stored the state of the step after the burn-in, and then burnt it in."""
    algorithm = make()
    copy_weights(algorithm._online, algorithm._target)
    rng = np.random.default_rng(0)
    _, states = play(algorithm, random_env(rng, (5, B), FRAME, ENDS), algorithm.policy.initial_state(B))
    env = random_env(rng, (algorithm.unroll.stored_steps, B), FRAME, ends=0.0)
    sample, states = play(algorithm, env, states[-2])
    acted = sample.agent.info["q_values"][BURN_IN:]
    np.testing.assert_allclose(algorithm._q_values(algorithm._online, sample), acted, atol=1e-4)
    # So the loss's priorities are those that acting gave, as long as no weight has changed.
    first = algorithm.initial_priority(sample.env._replace(observation=()), sample.agent)
    np.testing.assert_allclose(algorithm.losses(sample).priority, first, rtol=1e-3)

    later = sample._replace(initial_state=states[BURN_IN])
    assert np.abs(algorithm._q_values(algorithm._online, later) - acted).max(axis=(0, 2)).min() > 0.01
    assert np.abs(algorithm.losses(later).priority / first - 1).max() > 0.01


def test_no_gradient_goes_through_the_burn_in():
    algorithm = make(VECTOR)
    sample = random_sample(algorithm, observation=VECTOR)
    sample = sample._replace(env=sample.env._replace(done=tf.zeros_like(sample.env.done)))
    watched = (sample.env.observation, sample.initial_state)
    with tf.GradientTape() as tape:
        tape.watch(watched)
        loss = tf.reduce_sum(loss_of(algorithm, sample))
    observation, state = tape.gradient(loss, watched)
    assert (observation.numpy()[:BURN_IN] == 0).all()
    assert (np.abs(observation.numpy()[BURN_IN:-1]).max(axis=(1, 2)) > 0).all()
    assert tf.nest.flatten(state) == [None, None]


def test_gradients_are_those_of_targets_that_stand_still():
    """The bias of the value stream moves every Q-value by the same: its gradient is minus the errors' sum."""
    algorithm = make(lstm_size=0, frame_stack=1, burn_in=0)
    sample = random_sample(algorithm)
    bias = algorithm._online._value.bias
    action, env = without_burn_in((sample.agent.action, sample.env), 0)
    q = [q_values(network, sample, 0) for network in (algorithm._online, algorithm._target)]
    errors = slow_errors(algorithm._config, *q, action, env)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(loss_of(algorithm, sample))
    np.testing.assert_allclose(tape.gradient(loss, [bias])[0], [-errors.sum()], rtol=1e-3)


def test_each_environment_explores_by_its_own_epsilon():
    algorithm = make(num_envs=5, num_eval_envs=2, eval_epsilon=1.0)
    assert algorithm.num_eval_envs == 2
    rows = 20_000
    ids = tf.repeat(tf.range(5), rows)
    output, _ = algorithm.policy.act(
        *rows_like_the_first(5 * rows, FRAME), algorithm.policy.initial_state(5 * rows), ids
    )
    best = output.info["q_values"].numpy()[0].argmax()
    strayed = (output.action.numpy().reshape(5, rows) != best).mean(1)
    epsilons = np.array([0.4, 0.4**4.5, 0.4**8, 1.0, 1.0])
    # Four standard deviations of what is counted here.
    np.testing.assert_allclose(strayed, epsilons * (A - 1) / A, atol=0.013)
    assert strayed[2] < 0.002
