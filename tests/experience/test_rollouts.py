"""Rollouts: one unroll of every environment, each of which waits until all have been trained on."""

import numpy as np
import pytest

from seed_rl.experience.base import Setup, UnrollConfig
from seed_rl.experience.fifo import Rollouts
from tests.experience.slow_store import append, env_of

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
    assert store.end_unrolls(env_ids, env_of(100 * env_ids + first + T)) == env_ids.tolist()
    assert not store.closes(env_ids)


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


@pytest.mark.parametrize(
    ("batch_size", "is_whole", "words"),
    [
        (3, False, "--batch_size=3 does not divide the 4 unrolls .*: 1, 2, 4"),
        (2, True, "--batch_size=2 must be 4"),
    ],
)
def test_minibatches_must_divide_the_rollout(batch_size, is_whole, words):
    with pytest.raises(ValueError, match=words):
        make(batch_size, is_whole=is_whole)
    for fits in (4,) if is_whole else (1, 2, 4):
        make(fits, is_whole=is_whole)


def test_a_host_expects_only_the_environments_that_it_serves():
    rollouts, store = make(num_served=2)
    play(store, [2, 3])
    assert rollouts.sample().sample.env.reward[0].tolist() == [200, 300]
