"""Alignment: whatever comes in whatever order, every unroll has the right answers and states."""

import contextlib
import itertools
import time

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.algorithms.policy import Policy
from seed_rl.experience.base import UnrollConfig
from seed_rl.experience.unroll_store import UnrollStore
from seed_rl.inference.core import InferenceCore
from seed_rl.inference.env_table import EnvTable
from seed_rl.inference.rows import Rows
from seed_rl.serving.request import BadStep, Request, ServedGroup
from seed_rl.types import AgentOutput, ArraySpec, EnvironmentSpec, EnvOutput
from seed_rl.wire.codec import ActionCodec, StepCodec

SPEC = EnvironmentSpec(
    {"env": ArraySpec((), "int32"), "step": ArraySpec((), "int32")}, ArraySpec((), "int32", (0,), (10**8,))
)


class Witness(Policy):
    """State: steps acted so far, the last step seen. Action: the environment and step that it answers."""

    def initial_state(self, batch_size):
        return {"acted": tf.zeros([batch_size], tf.int64), "saw": tf.fill([batch_size], -1)}

    def act(self, prev_action, env, state, env_ids):
        seen = env.observation
        state = {"acted": state["acted"] + 1, "saw": seen["step"]}
        info = {"acted": state["acted"], "env_ids": env_ids, "prev_action": prev_action}
        return AgentOutput(action(seen["env"], seen["step"]), info), state


def action(env, step):
    return env * 10_000 + step + 1


class World:
    """Groups of environments that number their steps, in front of a core."""

    def __init__(self, groups, length, burn_in, num_eval_envs=0, store=None, policy=None, spec=SPEC):
        """Args: groups, their sizes; environment ids follow one another; store, if not one of unrolls."""
        self.num_envs = sum(groups)
        self.version = 0
        unrolls = UnrollStore(self.num_envs - num_eval_envs, UnrollConfig(length, burn_in), self.insert)
        self.core = InferenceCore(
            policy or Witness(),
            spec,
            self.num_envs,
            num_eval_envs,
            store or unrolls,
            lambda: contextlib.nullcontext(self.version),
        )
        ends = np.cumsum(groups)
        self._groups = [
            np.arange(end - size, end, dtype=np.int32) for size, end in zip(groups, ends, strict=True)
        ]
        self._keys, self._actors = itertools.count(), itertools.count(1)
        self._leases = [self.group(group, next(self._actors)) for group in range(len(groups))]
        self.next_step = np.zeros(self.num_envs, np.int32)
        self.unrolls = [[] for _ in range(self.num_envs)]

    def insert(self, unrolls):
        for unroll in unrolls:
            self.unrolls[unroll.env.observation["env"][0]].append(unroll)

    def rejoin(self, group, is_new_actor):
        """A new stream of the group; a new actor begins a new count of steps, at the next thousand."""
        process_id = next(self._actors) if is_new_actor else self._leases[group].holder
        self._leases[group] = self.group(group, process_id)
        ids = self._groups[group]
        if is_new_actor:
            self.next_step[ids] = (self.next_step[ids] // 1000 + 1) * 1000

    def step(self, *groups):
        """One batch of these groups, in this order."""
        answers, unrolls = self.core.process([self.request(group) for group in groups])
        for group, answer in zip(groups, answers, strict=True):
            ids = self._groups[group]
            actions = ActionCodec(SPEC.action).decode(answer)
            np.testing.assert_array_equal(actions, action(ids, self.next_step[ids]))
            self.next_step[ids] += 1
        self.version += 1
        self.core.hand_over(unrolls)

    def group(self, group, process_id):
        ids = self._groups[group]
        return ServedGroup(next(self._keys), process_id, int(ids[0]), len(ids), is_restart=False)

    def request(self, group, **changes):
        """The group's next step, with other values in some fields of its records."""
        ids = self._groups[group]
        zeros = np.zeros(len(ids))
        observation = {"env": ids, "step": self.next_step[ids]}
        env = EnvOutput(
            zeros.astype(np.float32), self.next_step[ids] % 1000 == 0, zeros.astype(bool), observation
        )
        records = np.frombuffer(StepCodec(SPEC).encode(env), StepCodec(SPEC).record).copy()
        for name, value in changes.items():
            records[name] = value
        return Request(self._leases[group], records.tobytes(), time.monotonic())


def random_batches(world, num_groups, num_batches, seed=0):
    """Batches whose members and order change all the time; some groups are much slower than others."""
    rng = np.random.default_rng(seed)
    for _ in range(num_batches):
        chosen = np.flatnonzero(rng.random(num_groups) < np.linspace(1.0, 0.3, num_groups))
        if len(chosen):
            world.step(*rng.permutation(chosen))


def assert_aligned(unroll, stored_steps):
    env, step = unroll.env.observation["env"], unroll.env.observation["step"]
    assert len(step) == stored_steps
    np.testing.assert_array_equal(env, env[0])
    np.testing.assert_array_equal(step, step[0] + np.arange(stored_steps))
    np.testing.assert_array_equal(unroll.agent.info["env_ids"], env)
    # agent[t] answers env[t]; prev_action[t] produced env[t], and is what the policy was shown.
    np.testing.assert_array_equal(unroll.agent.action, action(env, step))
    np.testing.assert_array_equal(unroll.prev_action[1:], unroll.agent.action[:-1])
    np.testing.assert_array_equal(unroll.prev_action, unroll.agent.info["prev_action"])
    is_start = step[0] % 1000 == 0
    assert unroll.prev_action[0] == (0 if is_start else action(env[0], step[0] - 1))
    # The state is that before the FIRST step.
    assert unroll.initial_state["acted"] == unroll.agent.info["acted"][0] - 1
    assert unroll.initial_state["saw"] == (-1 if is_start else step[0] - 1)


SIZES = [(5, 0), (1, 0), (5, 2), (4, 4), (3, 7), (1, 3)]


@pytest.mark.parametrize(("length", "burn_in"), SIZES)
def test_unrolls_are_aligned(length, burn_in):
    groups = [2, 1, 3, 1]
    world, stored = World(groups, length, burn_in), burn_in + length + 1
    random_batches(world, len(groups), 60)
    for env, unrolls in enumerate(world.unrolls):
        assert unrolls
        for unroll in unrolls:
            assert_aligned(unroll, stored)
        # Staggered once; then one every `length` steps, each beginning burn_in + 1 before the last one's end.
        firsts = [unroll.env.observation["step"][0] for unroll in unrolls]
        offset = env * length // world.num_envs
        assert firsts == list(range(offset, world.next_step[env] - stored + 1, length))
        if len(unrolls) > 1:
            overlap = unrolls[0].env.observation["step"][-burn_in - 1 :]
            np.testing.assert_array_equal(unrolls[1].env.observation["step"][: burn_in + 1], overlap)


def test_the_streams_before_and_after_are_told_apart_in_one_batch():
    world = World([2, 1], 4, 0)
    world.step(0, 1)
    late = world.request(0)
    world.rejoin(0, is_new_actor=True)
    (late_answer, first_answer), _ = world.core.process([late, world.request(0)])
    assert isinstance(late_answer, BadStep)
    assert ActionCodec(SPEC.action).decode(first_answer).tolist() == [action(0, 1000), action(1, 1000)]


def test_a_new_actor_starts_clean_even_if_its_first_stream_came_to_nothing():
    world = World([1], 4, 0)
    for _ in range(3):
        world.step(0)
    world.rejoin(0, is_new_actor=True)  # It leaves before its first step is acted on,
    world.rejoin(0, is_new_actor=False)  # and comes back.
    for _ in range(8):
        world.step(0)
    assert world.unrolls[0]
    for unroll in world.unrolls[0]:
        assert_aligned(unroll, 5)


@pytest.mark.parametrize(("length", "burn_in"), [(5, 0), (4, 2)])
def test_evaluation_environments_act_and_leave_no_experience(length, burn_in):
    groups = [2, 2, 1]  # The last three environments evaluate: half of the second group, and the third.
    world, stored = World(groups, length, burn_in, num_eval_envs=3), burn_in + length + 1
    random_batches(world, len(groups), 60)
    world.rejoin(1, is_new_actor=True)
    world.rejoin(2, is_new_actor=True)
    random_batches(world, len(groups), 60, seed=1)
    assert [bool(unrolls) for unrolls in world.unrolls] == [True, True, False, False, False]
    for unroll in world.unrolls[0] + world.unrolls[1]:
        assert_aligned(unroll, stored)


def test_an_op_and_a_call_of_the_function_are_the_same():
    codec = StepCodec(SPEC)
    zeros = np.zeros(3, np.float32)
    outputs = []
    for as_op in (False, True):
        table, batch = EnvTable(Witness(), SPEC, 5), Rows(codec.record, 5)
        table._call._as_op = as_op
        for step in range(3):
            ids = np.int32([4, 0, 2])
            env = EnvOutput(zeros, zeros.astype(bool), zeros.astype(bool), {"env": ids, "step": ids + step})
            batch.fill([codec.encode(env)], ids)
            batch.rows["starts"][1:] = True
            outputs.append(table.act(batch.rows))
    for a, b in zip(outputs[:3], outputs[3:], strict=True):
        assert tf.nest.map_structure(np.ndarray.tolist, a) == tf.nest.map_structure(np.ndarray.tolist, b)
    assert outputs[2][2]["acted"].tolist() == [2, 2]


def test_bad_steps_are_refused_and_the_others_of_the_batch_answered():
    world = World([2, 1, 1, 2], 2, 0)
    world.step(0, 1, 2, 3)
    changes = {}, {"reward": np.nan}, {}, {"done": True, "truncated": [False, True]}
    requests = [world.request(group, **changes[group]) for group in range(4)]
    answers, unrolls = world.core.process(requests)
    assert answers[1] == BadStep(
        "The reward of environment 0 in the message is NaN or infinite; fix the environment."
    )
    assert isinstance(answers[3], BadStep)
    assert ActionCodec(SPEC.action).decode(answers[0]).tolist() == [action(0, 1), action(1, 1)]
    assert ActionCodec(SPEC.action).decode(answers[2]).tolist() == [action(3, 1)]
    assert unrolls == []
    assert world.core.agent_steps == 6 + 3
    all_bad, _ = world.core.process([requests[1], requests[3]])
    assert all(isinstance(answer, BadStep) for answer in all_bad)


@pytest.mark.parametrize("hides", ["what was copied", "what will be copied"])
def test_a_process_that_changes_its_records_meanwhile_is_refused_for_what_was_copied(monkeypatch, hides):
    """It shares its records with inference, and makes bad ones good, or good ones bad, after each copy."""
    world = World([2, 1, 1], 2, 0)
    world.step(0, 1, 2)
    requests = [world.request(group) for group in range(3)]
    good, bad = requests[0].records, world.request(0, reward=np.nan).records
    shared = bytearray(bad if hides == "what was copied" else good)
    requests[0] = requests[0]._replace(records=memoryview(shared))
    requests[1] = requests[1]._replace(records=np.zeros(1, StepCodec(SPEC).record).tobytes()[:4] + b"\2" * 10)
    fill, copies = Rows.fill, []

    def fill_and_change(self, records, env_ids):
        fill(self, records, env_ids)
        copies.append(len(env_ids))
        shared[:] = good if hides == "what was copied" else bad

    monkeypatch.setattr(Rows, "fill", fill_and_change)
    answers, unrolls = world.core.process(requests)
    assert "The reward of environment 0 in the message is NaN" in answers[0].sentence
    assert isinstance(answers[1], BadStep)
    assert ActionCodec(SPEC.action).decode(answers[2]).tolist() == [action(3, 1)]
    assert copies == ([4, 1] if hides == "what was copied" else [4, 3, 1])
    assert unrolls == []


def test_actions_out_of_range_are_refused():
    world = World([2, 1], 2, 0)
    world.step(0, 1)
    world.next_step[1] = 10**8  # The witness's actions are as large.
    answers, _ = world.core.process([world.request(0), world.request(1)])
    assert isinstance(answers[0], BadStep)
    assert "make the network overflow: 1." in answers[0].sentence
    assert ActionCodec(SPEC.action).decode(answers[1]).tolist() == [action(2, 1)]
