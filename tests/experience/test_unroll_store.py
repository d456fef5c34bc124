"""The store alone; tests/inference/test_core.py checks it together with what feeds it."""

import numpy as np
import pytest

from seed_rl.experience.unroll_store import UnrollStore
from seed_rl.types import AgentOutput, EnvOutput


def append(store, env_ids, steps, version=0):
    """One step of these environments; every array holds the step's number, the state holds minus it."""
    env_ids, steps = np.array(env_ids), np.array(steps, np.float32)
    false = np.zeros(len(steps), bool)
    env = EnvOutput(steps, false, false, {"image": np.stack([steps, steps + 0.5], axis=1)})
    starting = store.starting(env_ids)
    assert starting.dtype == np.intp
    state = (-steps[starting],)
    return store.append(env_ids, steps, env, AgentOutput(steps, {"q": steps}), starting, state, version)


@pytest.mark.parametrize(("length", "burn_in"), [(1, 0), (3, 0), (3, 1), (2, 5)])
def test_unrolls_overlap_by_burn_in_and_one(length, burn_in):
    store, stored, firsts = UnrollStore(1, length, burn_in), burn_in + length + 1, []
    for step in range(4 * stored):
        for unroll in append(store, [0], [step], version=step):
            first = unroll.env.reward[0]
            assert step == first + stored - 1  # Handed out as soon as it is complete.
            np.testing.assert_array_equal(unroll.env.reward, first + np.arange(stored))
            np.testing.assert_array_equal(unroll.env.observation["image"][:, 1], unroll.env.reward + 0.5)
            assert (unroll.initial_state[0], unroll.policy_version) == (-first, first)
            assert (unroll.env_id, unroll.first_step) == (0, first)
            firsts.append(first)
    assert firsts == list(range(0, 3 * stored + 1, length))[: len(firsts)]
    assert firsts[-1] > 3 * stored - length


def test_unrolls_do_not_change_after_they_were_handed_out():
    store = UnrollStore(1, 2)
    (unroll,) = [u for step in range(3) for u in append(store, [0], [step])]
    for step in range(3, 9):
        append(store, [0], [step])
    assert unroll.env.reward.tolist() == [0, 1, 2]
    assert unroll.initial_state[0] == 0


def test_stagger_spreads_the_ends():
    store, ends = UnrollStore(4, 8, stagger=True), {}
    for step in range(16):
        for unroll in append(store, range(4), [step] * 4):
            ends[int(unroll.env.reward[0])] = step
    assert ends == {0: 8, 2: 10, 4: 12, 6: 14}


def test_reset_drops_the_unfinished_unroll_of_that_environment_only():
    store = UnrollStore(2, 3)
    for step in range(2):
        append(store, [0, 1], [step, step])
    store.reset(np.array([1]))
    got = [u for step in range(2, 6) for u in append(store, [1, 0], [100 + step, step])]
    assert [u.env.reward.tolist() for u in got] == [[0, 1, 2, 3], [102, 103, 104, 105]]
    assert [(u.env_id, u.first_step) for u in got] == [(0, 0), (1, 0)]


def test_unrolls_before_and_after_a_reset_are_told_apart():
    store = UnrollStore(2, 3)
    first = [u for step in range(4) for u in append(store, [0, 1], [step, step])]
    store.reset(np.array([1]))
    second = [u for step in range(4, 11) for u in append(store, [0, 1], [step, step])]
    told = [(u.env_id, u.stream, u.first_step) for u in first + second]
    assert sorted(told) == [(0, 0, 0), (0, 0, 3), (0, 0, 6), (1, 0, 0), (1, 1, 0), (1, 1, 3)]


def test_nothing_of_before_a_reset_is_left_in_an_unroll():
    """Also not where the reset comes between two steps of the same unroll, at whatever step."""
    for steps_before in range(1, 9):
        store = UnrollStore(1, 3, burn_in=1)
        for step in range(steps_before):
            append(store, [0], [step])
        store.reset(np.array([0]))
        unrolls = [u for step in range(100, 112) for u in append(store, [0], [step])]
        assert [u.env.reward[0] for u in unrolls] == [100, 103, 106]
        assert all((u.env.reward >= 100).all() for u in unrolls)
