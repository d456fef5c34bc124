"""The store alone; tests/inference/test_core.py checks it together with what feeds it."""

import numpy as np
import pytest

from seed_rl.experience.unroll_config import UnrollConfig
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


def make(num_envs, length, **settings):
    """A store whose environments all begin at once, unless `stagger` is set."""
    return UnrollStore(num_envs, UnrollConfig(length, **{"stagger": False, **settings}))


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


class SlowStore:
    """What the store should do, with lists: every step is kept with the state and version that it met."""

    def __init__(self, num_envs, config):
        self._config = config
        self._skip = [config.every * i // num_envs if config.stagger else 0 for i in range(num_envs)]
        self._steps = [[] for _ in range(num_envs)]
        self._streams = [0] * num_envs

    def reset(self, env_id, stream):
        self._streams[env_id] = stream
        self._steps[env_id] = []

    def append(self, env_id, step, version):
        """One step; returns whether it begins an unroll, and the unrolls that it completes."""
        if self._skip[env_id] > 0:
            self._skip[env_id] -= 1
            return False, []
        steps, config = self._steps[env_id], self._config
        steps.append((step, version))
        begins = (len(steps) - 1) % config.every == 0
        first = len(steps) - config.burn_in - config.length - 1
        if first < 0 or first % config.every:
            return begins, []
        unroll, version = [number for number, _ in steps[first:]], steps[first][1]
        return begins, [(env_id, self._streams[env_id], first, unroll, version)]


def described(unroll):
    """As `SlowStore` has it. The state, the answer and the image must all be of the same steps."""
    steps = unroll.env.reward
    np.testing.assert_array_equal(unroll.prev_action, steps)
    np.testing.assert_array_equal(unroll.agent.action, steps)
    np.testing.assert_array_equal(unroll.agent.info["q"], steps)
    np.testing.assert_array_equal(unroll.env.observation["image"], np.stack([steps, steps + 0.5], axis=1))
    assert unroll.initial_state[0] == -steps[0]
    return unroll.env_id, unroll.stream, unroll.first_step, steps.tolist(), unroll.policy_version


CUTS = [
    UnrollConfig(3, period=1, stagger=False),  # Transitions of three steps.
    UnrollConfig(1, period=1, stagger=False),
    UnrollConfig(3, burn_in=2, period=1, stagger=False),
    UnrollConfig(5, period=2, stagger=False),
    UnrollConfig(5, period=2),
    UnrollConfig(4, burn_in=3, period=2),
    UnrollConfig(4, burn_in=3, period=3),
    UnrollConfig(2, burn_in=1, period=4),  # As long as its period.
    UnrollConfig(3, period=7),  # Steps between unrolls are in none of them.
    UnrollConfig(3, burn_in=1, period=11),
    UnrollConfig(6, burn_in=4),
]


@pytest.mark.parametrize("config", CUTS, ids=str)
def test_against_lists_in_plain_python(config):
    """Environments step at different speeds, in any order, and are reset at any moment."""
    num_envs, rng = 5, np.random.default_rng(0)
    store, slow = UnrollStore(num_envs, config), SlowStore(num_envs, config)
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
