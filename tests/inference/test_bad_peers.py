"""Bad steps of a peer end its own connection at most: the real core behind all ways that steps may come."""

import contextlib

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from seed_rl.experience.base import Setup, UnrollConfig
from seed_rl.experience.fifo import Fifo
from seed_rl.experience.unroll_store import UnrollStore
from seed_rl.inference import core as core_module
from seed_rl.inference.core import InferenceCore
from seed_rl.inference.unroll_core import UnrollCore
from seed_rl.serving.batcher import Batcher
from seed_rl.serving.request import BadStep, Request, ServedGroup
from seed_rl.types import AgentOutput
from seed_rl.wire.generated import inference_pb2 as pb
from seed_rl.wire.ranges import RANGES
from seed_rl.wire.shared_memory import EPISODES as HAS_EPISODES
from tests.serving.conftest import WAYS
from tests.serving.harness import NUM_ENVS, SPEC, Harness, Player, records_of


class Echo(tf.Module):
    """Answers with the first number of an observation."""

    def initial_state(self, batch_size):
        return {"acted": tf.zeros([batch_size], tf.int64)}

    def act(self, prev_action, env, state, env_ids):
        output = AgentOutput(tf.cast(env.observation[:, 0], tf.int32), {"prev_action": prev_action})
        return output, {"acted": state["acted"] + 1}


def make_core(insert=lambda unrolls: None):
    """A core, and its store of unrolls of two steps."""
    store = UnrollStore(NUM_ENVS, UnrollConfig(2, stagger=False), insert)
    return InferenceCore(Echo(), SPEC, NUM_ENVS, 0, store, lambda: contextlib.nullcontext(0)), store


class RealHarness(Harness):
    """The harness with a core in place of its own answers."""

    def _answer(self):
        make_core()[0].serve(self.batcher, self.server.deliver)


def edges(kind, field, low, high):
    """The ends of a field's range and of types, and what is next to them, as far as its own type has them."""
    ends = {0, low, high, 2**31, 2**32, 2**63, 2**64, *(int(x) for x in RANGES[kind][field] if abs(x) < 1e30)}
    near = {end + d for end in ends for d in (-2, -1, 0, 1, 2)}
    return st.sampled_from(sorted(value for value in near if low <= value <= high))


INT32 = (-(2**31), 2**31 - 1)
# Half of them fit, so that what comes later is read as well.
JOINS = st.one_of(
    st.just({}),
    st.sampled_from(list(RANGES["Join"])).flatmap(
        lambda name: st.fixed_dictionaries(
            {name: edges("Join", name, *((0, 2**64 - 1) if name == "process_id" else INT32))}
        )
    ),
)
EPISODES = st.builds(
    pb.Episode,
    env=edges("Episode", "env", *INT32),
    episode_return=st.floats(width=32),
    agent_steps=edges("Episode", "agent_steps", *INT32),
    figures=st.dictionaries(st.text(max_size=3), st.floats(), max_size=2),
)
READIES = st.one_of(st.just([0]), st.lists(edges("Ready", "applied", 0, 2**64 - 1), min_size=1, max_size=2))
STEPS = st.tuples(
    st.one_of(st.just(0), edges("Step", "group", 0, 2**32 - 1)),
    st.one_of(st.binary(max_size=40), st.binary(min_size=28, max_size=28)),
    st.lists(EPISODES, max_size=3),
)


@pytest.fixture(params=WAYS)
def real(tmp_path, request):
    with contextlib.ExitStack() as stack:
        yield RealHarness(f"unix:{tmp_path}/s", stack, request.param)


def say_all(player, applied, steps):
    """Sends values that the messages' types allow, as long as the connection is open."""
    with contextlib.suppress(Exception):  # The connection has ended.
        player.get_ready(applied=applied)
        for group, records, episodes in steps:
            if player.link is None:
                player.say(steps=[pb.Step(group=group, records=records, episodes=episodes)])
                continue
            part = player.link.parts[0]
            part.records[: len(records)] = records[: len(part.records)]
            for episode in episodes:
                part._episodes[episode.env % 2] = episode.agent_steps, episode.episode_return
                part._figures[: len(records)] = records
            player.link.send([group | (HAS_EPISODES if episodes else 0)])
        player.status()


@settings(max_examples=80, deadline=None, database=None)
@given(join=JOINS, applied=READIES, steps=st.lists(STEPS, max_size=3))
def play_badly(harness, join, applied, steps):
    said = {"num_envs": 2, "num_groups": 1, "process_id": 9} | join
    bad = Player(harness.address, harness._way, **said)
    try:
        say_all(bad, applied, steps)
    finally:
        bad.close()
    assert harness._thread.is_alive()


def test_whatever_one_peer_sends_another_one_plays(real, monkeypatch):
    monkeypatch.setattr("tests.serving.harness.DEADLINE_SECS", 0.2)  # Of a stream that waits for more.
    good = real.join(num_envs=4, num_groups=2, process_id=1)
    play_badly(real)
    monkeypatch.undo()
    good = real.join(num_envs=4, num_groups=2, process_id=1)
    assert [good.ask(1, 2, group=0), good.ask(3, 4, group=1)] == [[1, 2], [3, 4]]


POISON = 7.0


def poisoned(function):
    """The function of a table that raises whenever a batch has the poison."""

    def act(rows):
        if (rows["record"]["observation:"][:, 0] == POISON).any():
            raise KeyError("poison")
        return function(rows)

    return act


def request(key, numbers, applied=None):
    return Request(ServedGroup(key, key + 1, 2 * key, 2, False), records_of(*numbers), 0.0, applied)


def test_the_others_of_a_batch_that_raises_get_their_answers_and_their_unrolls(caplog):
    unrolls = []
    core, store = make_core(unrolls.extend)
    core._table.act = poisoned(core._table.act)
    for step in range(4):
        batch = [request(0, (1, 2)), request(1, (POISON, 3) if step == 2 else (3, 3)), request(2, (4, 5))]
        answers, completed = core.process(batch)
        store.hand_over(completed)
        assert [isinstance(answer, BadStep) for answer in answers] == [False, step == 2, False]
        assert np.frombuffer(answers[2], "<i4").tolist() == [4, 5]
        if step == 2:
            assert isinstance(answers[1].error, KeyError) and "KeyError('poison')" in answers[1].sentence
    assert [record.exc_info[0] for record in caplog.records] == [KeyError] * len(caplog.records) != []
    assert sorted({unroll.env_id for unroll in unrolls}) == [0, 1, 2, 3, 4, 5]


def test_steps_that_cannot_be_stored_end_their_connections_and_are_not_acted_on_again():
    unrolls, acted = [], []
    core, store = make_core(unrolls.extend)
    act, append = core._table.act, store.append
    core._table.act = lambda rows: acted.append(len(rows)) or act(rows)

    def fail_at_the_third(*arguments):
        if len(acted) == 3:
            raise KeyError("full")
        return append(*arguments)

    store.append = fail_at_the_third
    for step in range(8):
        answers, completed = core.process([request(0, (step, step)), request(1, (step, step))])
        store.hand_over(completed)
        assert [isinstance(answer, BadStep) for answer in answers] == [step == 2] * 2
    assert acted == [4] * 8
    assert {tuple(unroll.env.observation[:, 0].astype(int)) for unroll in unrolls} == {(3, 4, 5), (5, 6, 7)}


def serve(core, batches, clock):
    """Answers batches, one a second, until one raises; returns how many were answered."""
    batcher, count = Batcher(NUM_ENVS, 0.0), 0
    for batch in batches:
        clock[0] += 1.0
        pairs = [(batcher.connect(), request) for request in batch]
        core.answer(pairs, batcher, lambda answers: None)
        count += 1
    return count


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(core_module.time, "monotonic", lambda: now[0])
    return now


def test_a_bug_that_every_request_meets_ends_the_run(clock):
    core, _ = make_core()
    core._table.act = poisoned(core._table.act)
    bad, good = [request(0, (POISON, 1)), request(1, (1, POISON))], [request(2, (1, 2))]
    assert serve(core, [[*bad, *good]] * 30, clock) == 30
    assert serve(core, [bad] * 5 + [good] + [bad] * 5, clock) == 11
    with pytest.raises(KeyError, match="poison"):
        serve(core, [bad] * 30, clock)
    assert clock[0] < 60


@pytest.mark.parametrize("error", [FloatingPointError("diverged"), MemoryError("full")])
def test_errors_of_the_run_end_it_at_once(error):
    core, _ = make_core()

    def fail(rows):
        raise error

    core._table.act = fail
    with pytest.raises(type(error)):
        core.process([request(0, (1, 2)), request(1, (1, 2))])


def test_unrolls_that_raise_end_their_connection_alone():
    class Codec:
        def nests(self, records):
            raise KeyError("poison")

    fifo = Fifo(Setup(0, UnrollConfig(2), 2), capacity=4)
    core, answers, batcher = UnrollCore(Codec(), fifo.store, None), [], Batcher(NUM_ENVS, 0.0)
    core.answer([(batcher.connect(), request(0, (1, 2)))], batcher, answers.extend)
    ((_, answer),) = answers
    assert isinstance(answer.error, KeyError)
