"""The store alone; tests/inference/test_core.py checks it together with what feeds it."""

import numpy as np
import pytest

from seed_rl.experience.unroll_config import UnrollConfig
from seed_rl.experience.unroll_store import UnrollStore
from tests.experience.slow_store import CUTS, SlowStore, append, steps_of


def make(num_envs, length, **settings):
    """A store whose environments all begin at once, unless `stagger` is set."""
    return create(num_envs, UnrollConfig(length, **{"stagger": False, **settings}))


def create(num_envs, config):
    return UnrollStore(num_envs, config, lambda unrolls: None)


@pytest.mark.parametrize(("length", "burn_in"), [(1, 0), (3, 0), (3, 1), (2, 5)])
def test_unrolls_overlap_by_burn_in_and_one(length, burn_in):
    store, stored, firsts = make(1, length, burn_in=burn_in), burn_in + length + 1, []
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
    store = make(1, 2)
    (unroll,) = [u for step in range(3) for u in append(store, [0], [step])]
    for step in range(3, 9):
        append(store, [0], [step])
    assert unroll.env.reward.tolist() == [0, 1, 2]
    assert unroll.initial_state[0] == 0


def test_stagger_spreads_the_ends():
    store, ends = make(4, 8, stagger=True), {}
    for step in range(16):
        for unroll in append(store, range(4), [step] * 4):
            ends[int(unroll.env.reward[0])] = step
    assert ends == {0: 8, 2: 10, 4: 12, 6: 14}


def test_reset_drops_the_unfinished_unroll_of_that_environment_only():
    store = make(2, 3)
    for step in range(2):
        append(store, [0, 1], [step, step])
    store.reset(np.array([1]), stream=1)
    got = [u for step in range(2, 6) for u in append(store, [1, 0], [100 + step, step])]
    assert [u.env.reward.tolist() for u in got] == [[0, 1, 2, 3], [102, 103, 104, 105]]
    assert [(u.env_id, u.first_step) for u in got] == [(0, 0), (1, 0)]


def test_unrolls_before_and_after_a_reset_are_told_apart():
    store = make(2, 3)
    first = [u for step in range(4) for u in append(store, [0, 1], [step, step])]
    store.reset(np.array([1]), stream=1)
    second = [u for step in range(4, 11) for u in append(store, [0, 1], [step, step])]
    told = [(u.env_id, u.stream, u.first_step) for u in first + second]
    assert sorted(told) == [(0, 0, 0), (0, 0, 3), (0, 0, 6), (1, 0, 0), (1, 1, 0), (1, 1, 3)]


def test_nothing_of_before_a_reset_is_left_in_an_unroll():
    """Also not where the reset comes between two steps of the same unroll, at whatever step."""
    for steps_before in range(1, 9):
        store = make(1, 3, burn_in=1)
        for step in range(steps_before):
            append(store, [0], [step])
        store.reset(np.array([0]), stream=1)
        unrolls = [u for step in range(100, 112) for u in append(store, [0], [step])]
        assert [u.env.reward[0] for u in unrolls] == [100, 103, 106]
        assert all((u.env.reward >= 100).all() for u in unrolls)


def described(unroll):
    """As `SlowStore` has it."""
    return unroll.env_id, unroll.stream, unroll.first_step, steps_of(unroll), unroll.policy_version


@pytest.mark.parametrize("config", CUTS, ids=str)
def test_against_lists_in_plain_python(config):
    """Environments step at different speeds, in any order, and are reset at any moment."""
    num_envs, rng = 5, np.random.default_rng(0)
    store, slow = create(num_envs, config), SlowStore(num_envs, config)
    next_step, found_count = np.zeros(num_envs, int), 0
    for version in range(200):
        if rng.random() < 0.03:
            env_id = int(rng.integers(num_envs))
            store.reset(np.array([env_id]), stream=version)
            slow.reset(env_id, version)
            next_step[env_id] += 1000
        chosen = rng.permutation(np.flatnonzero(rng.random(num_envs) < np.linspace(1.0, 0.4, num_envs)))
        steps = [slow.append(int(env_id), float(next_step[env_id]), version) for env_id in chosen]
        begin = [place for place, (begins, _) in enumerate(steps) if begins]
        assert store.starting(chosen).tolist() == begin
        found = [described(unroll) for unroll in append(store, chosen, next_step[chosen], version)]
        assert found == [unroll for _, completed in steps for unroll in completed]
        next_step[chosen] += 1
        found_count += len(found)
    assert found_count > 20


def test_every_step_begins_an_n_step_transition():
    store = make(1, 3, period=1)
    found = [described(unroll) for step in range(9) for unroll in append(store, [0], [step], 10 * step)]
    assert found == [
        (0, 0, first, [first, first + 1, first + 2, first + 3], 10 * first) for first in range(6)
    ]


def test_a_reset_in_the_middle_of_overlapping_unrolls_drops_all_of_them():
    store = make(1, 3, period=1)
    before = [unroll for step in range(5) for unroll in append(store, [0], [step])]
    store.reset(np.array([0]), stream=1)
    after = [unroll for step in range(100, 105) for unroll in append(store, [0], [step])]
    assert [unroll.env.reward[0] for unroll in before + after] == [0, 1, 100, 101]
    assert [unroll.stream for unroll in before + after] == [0, 0, 1, 1]


def test_stagger_is_spread_over_the_period():
    store, firsts = make(4, 3, period=8, stagger=True), {}
    for step in range(16):
        for unroll in append(store, range(4), [step] * 4):
            firsts.setdefault(unroll.env_id, []).append(int(unroll.env.reward[0]))
    assert firsts == {0: [0, 8], 1: [2, 10], 2: [4, 12], 3: [6]}


def test_unrolls_are_inserted_when_they_are_handed_over():
    inserted = []
    store = UnrollStore(1, UnrollConfig(1), inserted.append)
    for step in range(3):
        store.hand_over(append(store, [0], [step]))
    assert [[steps_of(unroll) for unroll in unrolls] for unrolls in inserted] == [[[0, 1]], [[1, 2]]]


def test_a_store_with_states_refuses_settings_without():
    with pytest.raises(ValueError, match="UnrollStore needs keeps_state=True"):
        make(1, 3, keeps_state=False)
