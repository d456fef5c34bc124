"""PPO by itself: what it prepares of a rollout, and what its loss computes from that."""

import numpy as np
import pytest

from seed_rl.algorithms.ppo import PPO
from seed_rl.algorithms.ppo_config import PPOConfig
from seed_rl.training.trainer import Trainer
from seed_rl.training.training_config import TrainerConfig
from tests.algorithms.rollouts import ACTIONS, B, T, loss_of, maker, moved, rollout, twenty_updates, unacted

make = maker(PPO, PPOConfig, lstm_size=0)


def columns(sample):
    """From transitions `[1, T * B, ...]` to `[T, B, ...]`, NumPy."""
    info = sample.agent.info
    return {name: np.reshape(array, (T, B, *array.shape[2:])) for name, array in info.items()}


def generalized_advantages(sample, discounting, lambda_, limit):
    """One transition after the other, from the end; the values are those of acting, also of the last step."""
    values, found = sample.agent.info["baseline"].numpy(), np.zeros((T, B))
    rewards, done, truncated = (x.numpy() for x in sample.env[:3])
    rewards = np.clip(rewards, -limit, limit)
    for b in range(B):
        following = 0.0
        for t in reversed(range(T)):
            discount = 0.0 if done[t + 1, b] else discounting
            delta = rewards[t + 1, b] + discount * values[t + 1, b] - values[t, b]
            following = 0.0 if truncated[t, b] else delta + discount * lambda_ * following
            found[t, b] = following
    return found, found + values[:-1]


@pytest.mark.parametrize("lstm_size", [0, 8])
def test_advantages_and_targets_of_twenty_updates_against_numpy(lstm_size):
    """The value to bootstrap from is that of the weights that have played, in the state they were in."""
    algorithm = make(lstm_size=lstm_size, discounting=0.9, lambda_=0.8, max_abs_reward=0.5)
    for sample, prepared in twenty_updates(algorithm):
        advantages, targets = generalized_advantages(sample, 0.9, 0.8, 0.5)
        valid = ~sample.env.truncated.numpy()[:-1]
        found = columns(prepared)
        np.testing.assert_allclose(found["advantages"], advantages, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(found["targets"], targets, rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(found["valid"], valid)


def test_a_last_step_at_which_the_network_overflows_is_no_experience():
    algorithm = make()
    sample = unacted(rollout(algorithm))
    value = algorithm._network._baseline_head
    value.bias.assign([2e8])
    found = columns(algorithm.prepare(sample))
    assert not found["valid"][-1].any() and not found["advantages"][-1].any()
    assert np.isfinite(found["targets"]).all()


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("lstm_size", [0, 8])
def test_before_the_first_update_nothing_has_moved(action, lstm_size):
    """The loss sees the frames, states and actions that the policy saw: every ratio is 1."""
    algorithm = make(action, lstm_size=lstm_size)
    prepared = algorithm.prepare(rollout(algorithm, action))
    metrics = algorithm.losses(prepared).metrics
    assert abs(metrics["kl_old_new"].numpy()) < 1e-5
    assert metrics["clipped_share"].numpy() == 0
    info = prepared.agent.info
    values, valid = info["old_values"].numpy(), info["valid"].numpy()
    assert metrics["value"].numpy() == pytest.approx(values[valid].mean(), abs=1e-4)


def test_a_recurrent_network_gets_whole_unrolls_and_others_transitions():
    shapes = [make(lstm_size=size).prepare(rollout(make(lstm_size=size))) for size in (8, 0)]
    assert [x.env.reward.shape for x in shapes] == [(T, B), (1, T * B)]
    assert [x.weight.shape for x in shapes] == [(B,), (T * B,)]


@pytest.mark.parametrize("clip_value", [0.05, None])
def test_the_loss_against_numpy(clip_value):
    algorithm = make(clip_ratio=0.1, clip_value=clip_value, entropy_cost=0.02, baseline_cost=0.7)
    prepared = algorithm.prepare(rollout(algorithm))
    output, _ = moved(algorithm)._network.unroll(prepared.prev_action, prepared.env, prepared.initial_state)
    info = {name: array.numpy()[0] for name, array in prepared.agent.info.items()}
    logits, values = output.policy_parameters.numpy()[0], output.baseline.numpy()[0]
    log_p, log_q = (x - np.log(np.exp(x).sum(-1, keepdims=True)) for x in (logits, info["behaviour"]))
    valid, rows = info["valid"], np.arange(T * B)
    ratio = np.exp(log_p[rows, info["action"]] - log_q[rows, info["action"]])
    used = info["advantages"][valid]
    advantages = (info["advantages"] - used.mean()) / used.std()
    gain = np.minimum(ratio * advantages, np.clip(ratio, 0.9, 1.1) * advantages)
    errors = (info["targets"] - values) ** 2
    if clip_value:
        limited = info["old_values"] + np.clip(values - info["old_values"], -clip_value, clip_value)
        errors = np.maximum(errors, (info["targets"] - limited) ** 2)
    entropy = -(np.exp(log_p) * log_p).sum(-1)
    expected = np.where(valid, -gain + 0.7 * 0.5 * errors - 0.02 * entropy, 0.0)
    assert (np.abs(ratio - 1) > 0.1).any()
    np.testing.assert_allclose(loss_of(algorithm, prepared), expected, rtol=1e-3, atol=1e-4)


def test_rewards_are_scaled_by_statistics_that_include_the_rollout():
    algorithm = make(normalize_rewards=True)
    sample = rollout(algorithm)
    plain = make().prepare(sample._replace(initial_state=sample.initial_state[0]))
    scaled = algorithm.prepare(sample)
    assert not np.allclose(plain.agent.info["advantages"], scaled.agent.info["advantages"])


def test_training_stops_early_when_the_policy_has_moved_enough():
    for target_kl, passes in ((1e-6, 1), (1e3, 4)):
        algorithm = make(target_kl=target_kl)
        trainer = Trainer(algorithm, TrainerConfig(batch_size=B, learning_rate=0.05))
        sample = rollout(algorithm)
        trainer.update(sample, 0.0)
        output = trainer.update(sample, 0.0)  # The first epoch of the first update may not have moved.
        assert output.metrics["epochs"].numpy() == passes
