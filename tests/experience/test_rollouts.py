"""Rollouts: one unroll of every environment, each of which waits until all have been trained on."""

import numpy as np
import pytest

from seed_rl.experience.base import Setup, UnrollConfig
from seed_rl.experience.fifo import Rollouts
from tests.experience.slow_store import append, env_of, unrolls_of

T, N = 3, 4
ALL = range(N)


def make(batch_size=2, num_envs=N, num_served=None, **options):
    rollouts = Rollouts(Setup(num_envs, UnrollConfig(T), batch_size, num_served=num_served), **options)
    return rollouts, rollouts.store


def never():
    raise AssertionError("This environment need not wait.")


def play(store, env_ids, first=0, version=0):
    """One rollout's steps of these environments, with numbers from `first` on."""
    env_ids = np.array(env_ids)
    for step in range(first, first + T):
        assert not store.hold(env_ids, never)
        assert not store.closes(env_ids)
        append(store, env_ids, 100 * env_ids + step, version)
    assert store.closes(env_ids)
    assert store.close(env_ids, env_of(100 * env_ids + first + T)) == env_ids.tolist()
    assert not store.closes(env_ids)


def played(rollouts):
    """(steps, policy versions) of every unroll of a rollout, sorted; its last step has not been acted on."""
    found = []
    for unroll in unrolls_of(rollouts.sample()):
        steps, agent = unroll.env.reward, unroll.agent
        np.testing.assert_array_equal(unroll.env.observation["image"][:, 1], steps + 0.5)
        for array in (agent.action, agent.info["q"]):
            np.testing.assert_array_equal(array, [*steps[:-1], 0])
        # Inputs of acting on these steps; the action before the last step is that of the step before.
        np.testing.assert_array_equal(unroll.prev_action, [*steps[:-1], steps[-2]])
        assert unroll.initial_state[0] == -steps[0]
        found.append((steps.tolist(), unroll.policy_version.tolist()))
    return sorted(found)


def test_a_rollout_is_one_unroll_of_each_environment():
    rollouts, store = make()
    play(store, [0, 1, 3])
    assert not rollouts.batch_ready()
    assert rollouts.figures() == {"rollout_unrolls": 3.0}
    play(store, [2])
    assert rollouts.batch_ready()
    assert played(rollouts) == [([100 * i + t for t in range(T + 1)], [0] * T + [-1]) for i in ALL]
    assert not rollouts.batch_ready()


def test_an_environment_waits_from_its_last_step_until_training_is_done():
    rollouts, store = make()
    resumed = []
    play(store, [0, 1])
    assert store.hold(np.array([0]), lambda: resumed.append(0))
    assert store.hold(np.array([0, 1]), lambda: resumed.append(1))
    assert not store.hold(np.array([2]), never)
    play(store, [2, 3])
    rollouts.sample()
    assert store.hold(np.array([3]), lambda: resumed.append(3))
    assert resumed == []
    rollouts.trained()
    assert resumed == [0, 1, 3]
    assert not store.hold(np.array([0, 1, 2, 3]), never)
    assert rollouts.figures() == {"rollout_unrolls": 0.0}


def test_environments_that_only_evaluate_never_wait():
    _, store = make()
    assert not store.hold(np.array([], np.int64), never)
    assert not store.closes(np.array([], np.int64))


def test_minibatches_must_divide_the_rollout():
    with pytest.raises(ValueError, match=r"--batch_size=3 does not divide the 4 unrolls .*: 1, 2, 4"):
        make(batch_size=3)
    for batch_size in (1, 2, 4):
        make(batch_size=batch_size)


def test_whole_rollouts_need_a_batch_of_that_size():
    with pytest.raises(ValueError, match="--batch_size=2 must be 4"):
        make(batch_size=2, is_whole=True)
    make(batch_size=4, is_whole=True)


def test_a_host_expects_only_the_environments_that_it_serves():
    rollouts, store = make(num_served=2)
    play(store, [2, 3])
    assert [steps[0] for steps, _ in played(rollouts)] == [200, 300]
