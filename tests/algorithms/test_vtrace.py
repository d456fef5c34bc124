"""V-trace by itself: what it stores lines up with what its loss computes."""

import numpy as np
import pytest
import scipy.special
import tensorflow as tf

from seed_rl.algorithms.base import LOSS
from seed_rl.algorithms.vtrace import VTrace
from seed_rl.algorithms.vtrace_config import VTraceConfig
from seed_rl.types import AgentOutput
from tests.algorithms.rollouts import ACTIONS, B, T, loss_of, maker, rollout, variables_of
from tests.selection import mostly_slow

make = maker(VTrace, VTraceConfig, lstm_size=8)


def shake(algorithm):
    """Weights that make the policy depend on all of its inputs, far from uniform; the same in each run."""
    tf.random.set_seed(0)
    for variable in variables_of(algorithm):
        noise = tf.random.stateless_normal(variable.shape, [1, 2])
        variable.assign(noise * 4 / variable.shape[0] ** 0.5)


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
    with tf.GradientTape() as tape:
        loss = loss_of(algorithm, sample)
    np.testing.assert_array_equal(loss, np.zeros(B))
    assert not any(gradient.numpy().any() for gradient in tape.gradient(loss, variables_of(algorithm)))


@pytest.mark.parametrize(
    ("options", "squeezed"),
    [
        ({"max_abs_reward": 0.5}, lambda r: r.clip(-0.5, 0.5)),
        ({"reward_clipping": "soft_asymmetric"}, lambda r: 5 * np.tanh(r / 5) * np.where(r < 0, 0.3, 1.0)),
    ],
)
def test_loss_against_numpy(options, squeezed):
    """With truncations, each of which cuts off a step that is no experience."""
    algorithm = make(lstm_size=0, baseline_cost=0.7, entropy_cost=0.3, kl_cost=0.2, **options)
    sample = rollout(algorithm)
    valid = ~sample.env.truncated.numpy()[:-1]
    assert valid.any(0).all() and not valid.all()
    # Behaviour and learned policy differ, but all importance weights are clipped to 1.
    behaviour = np.random.default_rng(1).normal(size=(T + 1, B, 4)).astype(np.float32)
    output, _ = algorithm._network.unroll(sample.prev_action, sample.env, sample.initial_state)
    new = scipy.special.log_softmax(output.policy_parameters.numpy(), -1)[:-1]
    action = behaviour.argmin(-1).astype(np.int32)
    sample = sample._replace(agent=AgentOutput(action, {"policy_parameters": tf.constant(behaviour)}))
    old = scipy.special.log_softmax(behaviour, -1)[:-1]
    pick = lambda x: np.take_along_axis(x, action[:-1, :, None], -1)[..., 0]  # noqa: E731
    assert (pick(new) > pick(old)).all()

    values = output.baseline.numpy()
    rewards = squeezed(sample.env.reward.numpy()[1:])
    discounts = 0.99 * (1 - sample.env.done.numpy()[1:])
    returns = np.concatenate([np.zeros((T, B)), values[-1:]])
    for t in reversed(range(T)):
        returns[t] = np.where(valid[t], rewards[t] + discounts[t] * returns[t + 1], values[t])
    errors = returns[:-1] - values[:-1]
    entropy = -(np.exp(new) * new).sum(-1)
    kl = (np.exp(old) * (old - new)).sum(-1)
    terms = -pick(new) * errors + 0.7 * 0.5 * errors**2 - 0.3 * entropy + 0.2 * kl
    np.testing.assert_allclose(loss_of(algorithm, sample), (terms * valid).sum(0) / valid.sum(0), rtol=1e-4)
