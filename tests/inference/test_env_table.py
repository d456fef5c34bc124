"""A compiled table answers as an ordinary one does, whatever the size of the batch."""

import keras
import numpy as np
import optree
import pytest
import tensorflow as tf

from seed_rl.algorithms.policy import Policy
from seed_rl.inference.core import InferenceCore
from seed_rl.inference.env_table import CompiledTable, EnvTable
from seed_rl.inference.rows import Rows
from seed_rl.ops.distributions import distribution_for
from seed_rl.types import AgentOutput, ArraySpec, EnvironmentSpec
from seed_rl.wire.codec import StepCodec
from tests.devices.networks import CASES, make
from tests.devices.recorded import random_step
from tests.inference import test_core
from tests.threads import Thread

pytestmark = pytest.mark.slow

NUM_ENVS, LARGEST = 7, 6
# Sizes 1, 2, 4 and 6; some environments do not take part in some batches.
BATCHES = [[3], [0, 1, 2, 3, 4], [6, 5, 4, 3, 2, 1], [4, 0], [2, 6, 1], [0, 1, 2, 3, 4, 5]]


class Likely(Policy):
    """Takes the action that its policy finds best, so that two tables see the same actions."""

    def __init__(self, policy):
        super().__init__()
        self._policy = policy

    def initial_state(self, batch_size):
        return self._policy.initial_state(batch_size)

    def act(self, prev_action, env, state, env_ids):
        return self._policy.act_greedy(prev_action, env, state, env_ids)


def fill(codec, env_ids, seed, spec):
    """A batch of these environments' steps, made from a seed."""
    rows = Rows(codec.record, len(env_ids))
    env = random_step(np.random.default_rng(seed), spec, len(env_ids))
    rows.fill([codec.encode(env)], np.int32(env_ids))
    rows.rows["starts"] = np.arange(len(env_ids)) % 2 == 0
    return rows.rows


@pytest.mark.parametrize("case", CASES)
def test_outputs_and_states_are_those_of_an_ordinary_table(case):
    spec = CASES[case][1]
    policy, codec = Likely(make(case, NUM_ENVS).policy), StepCodec(spec)
    plain, compiled = EnvTable(policy, spec, NUM_ENVS), CompiledTable(policy, spec, NUM_ENVS, "", LARGEST)
    for seed, env_ids in enumerate(BATCHES * 2):
        rows = fill(codec, env_ids, seed, spec)
        expected, found = plain.act(rows), compiled.act(rows)
        assert optree.tree_structure(expected) == optree.tree_structure(found)
        for one, other in zip(*map(optree.tree_leaves, (expected, found)), strict=True):
            assert (one.shape, one.dtype) == (other.shape, other.dtype)
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)
        assert found[3].all()
    assert compiled.compiled_sizes == [1, 2, 4, 6]
    plain.reset(np.int32([1, 2]))
    compiled.reset(np.int32([1, 2]))
    for one, other in zip(*(tf.nest.flatten(t._states) for t in (plain, compiled)), strict=True):
        np.testing.assert_allclose(one[:NUM_ENVS], other[:NUM_ENVS], rtol=1e-4, atol=1e-4)


class Counter(Policy):
    """State: steps acted so far. Counts its own compilations. Draws an action from fixed probabilities."""

    def __init__(self, probabilities=(0.5, 0.5)):
        super().__init__()
        self.traced, self._logits = 0, np.log(np.float32([probabilities]))
        self._draw = distribution_for(ACTION)

    def initial_state(self, batch_size):
        return tf.zeros([batch_size], tf.int32)

    def act(self, prev_action, env, state, env_ids):
        self.traced += 1
        action = self._draw.sample(tf.repeat(self._logits, tf.shape(env_ids)[0], 0))
        return AgentOutput(action, {"prev_action": prev_action}), state + 1


ACTION = ArraySpec((), "int32", (0,), (1,))
SPEC = EnvironmentSpec(ArraySpec((2,), "float32"), ACTION)


def test_rows_that_fill_up_touch_no_environment_and_compile_each_size_once():
    policy, codec = Counter(), StepCodec(SPEC)
    table, acted = CompiledTable(policy, SPEC, NUM_ENVS, "", LARGEST), np.zeros(NUM_ENVS, np.int32)
    rng, last = np.random.default_rng(0), np.zeros(NUM_ENVS, np.int32)
    for seed in range(60):
        env_ids = rng.permutation(NUM_ENVS)[: rng.integers(1, LARGEST + 1)]
        prev_action, output, states, is_good = table.act(fill(codec, env_ids, seed, SPEC))
        assert len(prev_action) == len(output.action) == len(is_good) == len(env_ids)
        np.testing.assert_array_equal(prev_action, last[env_ids])
        np.testing.assert_array_equal(states, acted[env_ids[::2]])
        acted[env_ids] += 1
        last[env_ids] = output.action
        np.testing.assert_array_equal(table._states[:NUM_ENVS], acted)
    assert policy.traced == len(table.compiled_sizes) == 4


def draws(seed, sizes, probabilities=(0.3, 0.7)):
    """All actions of batches of these sizes."""
    keras.utils.set_random_seed(seed)
    table, codec = CompiledTable(Counter(probabilities), SPEC, NUM_ENVS, "", LARGEST), StepCodec(SPEC)
    return [table.act(fill(codec, range(n), 0, SPEC))[1].action for n in sizes]


def test_draws_follow_the_policy_in_every_row_and_the_seed():
    found = np.stack(draws(1, [5] * 4000))  # Filled up to 6.
    np.testing.assert_allclose(found.mean(0), 0.7, atol=0.03)  # Four standard deviations.
    # Neither rows nor batches depend on one another.
    for one, other in ((found[:, 0], found[:, 1]), (found[:-1, 2], found[1:, 2])):
        assert abs(np.corrcoef(one, other)[0, 1]) < 0.07
    sizes = [5, 2, 3, 6, 5] * 8
    first, again, others = (np.concatenate(draws(seed, sizes)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != others).any()


def test_the_core_answers_and_stores_real_rows_only(monkeypatch):
    monkeypatch.setattr(
        test_core,
        "InferenceCore",
        lambda *args: InferenceCore(*args, compiled_batch_size=4),
    )
    world = test_core.World([2, 1, 3, 1], 3, 2)
    assert isinstance(world.core._table, CompiledTable)
    test_core.random_batches(world, 4, 60)
    for unrolls in world.unrolls:
        assert unrolls
        for unroll in unrolls:
            test_core.assert_aligned(unroll, 6)


def test_an_overflow_is_found_and_the_policy_is_not_blamed():
    policy, codec = make("vtrace-lstm", NUM_ENVS).policy, StepCodec(CASES["vtrace-lstm"][1])
    table = CompiledTable(policy, CASES["vtrace-lstm"][1], NUM_ENVS, "", LARGEST)
    rows = fill(codec, [0, 1, 2], 0, CASES["vtrace-lstm"][1])
    rows["record"]["observation:"][1] = 1e30
    assert table.act(rows)[3].tolist() == [True, False, True]
    assert table.policy_is_finite()


def test_threads_that_act_at_the_same_time_lose_nothing():
    table, codec, steps = CompiledTable(Counter(), SPEC, NUM_ENVS, "", LARGEST), StepCodec(SPEC), 300

    def act(env_ids):
        for _ in range(steps):
            table.act(fill(codec, env_ids, 0, SPEC))

    for thread in [Thread(act, ids) for ids in ([0, 1, 2], [3, 4, 5])]:
        assert thread.finished() and thread.error is None
    assert table._states.numpy()[:NUM_ENVS].tolist() == [steps] * 6 + [0]
