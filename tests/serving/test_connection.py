"""The rules of the conversation: what is refused, and, in any order of what may happen, who gets what."""

import asyncio
import os
import queue
import resource
import select

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from seed_rl.serving.connection import Refusal
from seed_rl.serving.request import BadStep
from seed_rl.serving.service import MessageCarrier
from seed_rl.wire.frames import actions_frames
from seed_rl.wire.generated import inference_pb2 as pb
from tests.serving.conftest import WAYS
from tests.serving.conversation import Batcher, Carrier, Process, deliver, make_connections, numbers_of
from tests.serving.harness import DEADLINE_SECS, MAX_GROUP, NUM_ENVS, records_of

JOINS = {
    "another version": ({"protocol_version": 2}, "FAILED_PRECONDITION", "and this actor version 2: install"),
    "no version": ({"protocol_version": 0}, "FAILED_PRECONDITION", "version 0"),
    "a task below -1": ({"task": -2}, "INVALID_ARGUMENT", "Join.task must be -1 to"),
    "redirects below 0": ({"redirects": -1}, "INVALID_ARGUMENT", "Join.redirects must be 0 to"),
    "no groups": ({"num_groups": 0}, "INVALID_ARGUMENT", "Join.num_groups must be 1 to 2147483647, not 0."),
    "fewer than no groups": ({"num_groups": -2}, "INVALID_ARGUMENT", "not -2."),
    "no environments": ({"num_envs": 0}, "INVALID_ARGUMENT", "Join.num_envs must be 1 to"),
    "groups that differ": ({"num_envs": 3, "num_groups": 2}, "INVALID_ARGUMENT", "a multiple of the second"),
    "a group too large": ({"num_envs": 5}, "FAILED_PRECONDITION", "exceeds the learner's --inference_batch"),
    "too many for the run": ({"num_envs": 12, "num_groups": 4}, "OUT_OF_RANGE", "of 12 environments does"),
}


def test_who_is_connected_is_counted_before_it_is_ready():
    connections = make_connections([Batcher()])
    assert connections.describe_actors().startswith("0 connected")
    one = Process(connections, process_id=1, num_envs=2)
    Process(connections, process_id=2, num_envs=1, task=NUM_ENVS - 1)
    assert connections.describe_actors().startswith("2 connected")
    assert f" 3 of {NUM_ENVS} " in connections.describe_actors()
    one.connection.end()
    assert connections.describe_actors().startswith("1 connected")


@pytest.mark.parametrize(("said", "code", "words"), JOINS.values(), ids=JOINS)
def test_a_join_that_does_not_fit_is_refused_and_holds_nothing(said, code, words):
    connections = make_connections([Batcher()])
    with pytest.raises(Refusal) as caught:
        Process(connections, **said)
    assert (caught.value.code.name, words in str(caught.value)) == (code, True)
    assert Process(connections, num_envs=NUM_ENVS, num_groups=2).welcome.task == 0


@pytest.mark.parametrize(("reason", "expected"), [("", None), ("Stopped.", ("UNAVAILABLE", "Stopped."))])
def test_all_connections_end_with_the_server_and_later_ones_too(reason, expected):
    connections = make_connections([Batcher()])
    playing, joined = Process(connections).get_ready(), Process(connections, process_id=2)
    connections.end(reason)
    assert [process.refusal() for process in (playing, joined)] == [expected] * 2
    assert Process(connections, process_id=3).refusal() == expected


@pytest.mark.parametrize(
    ("applied", "shares_memory", "words"),
    [
        *((applied, False, "A Ready of 2 groups needs as many numbers") for applied in ([], [0], [0, 0, 0])),
        ([0, 2**64 - 1], False, "Ready.applied must be 0 to 1000000000000000, not 18446744073709551615."),
        ([0, 0], True, "shared memory has ended; connect again"),
    ],
)
def test_a_ready_that_does_not_fit_is_refused(applied, shares_memory, words):
    with pytest.raises(Refusal, match=words):
        Process(make_connections([Batcher()]), num_groups=2).get_ready(applied, shares_memory=shares_memory)


def episode(env=0, episode_return=1.0, agent_steps=10):
    return pb.Episode(env=env, episode_return=episode_return, agent_steps=agent_steps)


GOOD = records_of(1, 2)
STEPS = {
    "of no group": ([(2, GOOD, ())], "Step.group must be 0 to 1, not 2."),
    "of a group below 0": ([(-1, GOOD, ())], "Step.group must be 0 to 1, not -1."),
    "a byte short": ([(0, GOOD[:-1], ())], "must be 28 bytes"),
    "a byte long": ([(0, GOOD + b"0", ())], "must be 28 bytes"),
    "empty": ([(0, b"", ())], "must be 28 bytes"),
    "early": ([(0, GOOD, ()), (1, GOOD, ()), (0, GOOD, ())], "A step of group 0 came before its last one"),
    "episode of another group": ([(0, GOOD, [episode(2)])], "Episode.env must be 0 to 1, not 2."),
    "episode of nobody": ([(0, GOOD, [episode(-1)])], "Episode.env must be 0 to 1, not -1."),
    "return that is not finite": ([(0, GOOD, [episode(0, np.nan)])], "Episode.episode_return must be"),
    "infinite return": ([(0, GOOD, [episode(0), episode(1, -np.inf)])], "not -inf."),
    "length below 0": ([(0, GOOD, [episode(1, 1.0, -1)])], "Episode.agent_steps must be 0 to 1000000000,"),
    "length too large": ([(0, GOOD, [episode(1, 1.0, 2**31 - 1)])], "0 to 1000000000, not 2147483647."),
    "two episodes at once": ([(0, GOOD, [episode(1), episode(1)])], "2 episodes of an environment"),
}


@pytest.mark.parametrize(("steps", "words"), STEPS.values(), ids=STEPS)
def test_a_step_that_does_not_fit_ends_its_connection(steps, words):
    batcher, episodes = Batcher(), []
    connections = make_connections([batcher], episodes)
    process = Process(connections, num_envs=4, num_groups=2).get_ready()
    process.connection.steps(steps, process.carrier)
    code, sentence = process.refusal()
    assert (code, words in sentence) == ("INVALID_ARGUMENT", True), sentence
    assert (batcher.pending, batcher.clients, episodes, process.carrier.closed) == ([], set(), [], 1)
    assert Process(connections, num_envs=NUM_ENVS, num_groups=2).welcome.must_reset is False


def test_steps_come_over_the_carrier_of_the_ready():
    process = Process(make_connections([Batcher()]))
    memory = Carrier()
    process.connection.share(memory)
    process.get_ready(shares_memory=True)
    process.step(1, 2, carrier=memory)
    assert (memory.begun, process.carrier.begun, process.ends) == (1, 0, [])
    process = Process(make_connections([Batcher()])).get_ready()
    process.step(1, 2, carrier=memory)
    assert process.refusal() == ("INVALID_ARGUMENT", "Steps of this actor go through the shared memory.")


def test_memory_goes_with_its_connection():
    kept, late = Carrier(), Carrier()
    process = Process(make_connections([Batcher()]))
    process.connection.share(kept)
    process.connection.end()
    process.connection.share(late)
    assert (kept.closed, late.closed) == (1, 1)


class Unread:
    """A stream whose other end does not read."""

    async def write(self, message):
        await asyncio.Event().wait()


def test_a_stream_ends_before_actions_that_are_not_read_pile_up():
    ends, answers = [], [(0, b"1234"), (1, b"1234")]

    async def send():
        carrier = MessageCarrier(Unread(), ends.append)
        carrier.frames = actions_frames(2, 4)
        for _ in range(2):
            carrier.send(answers)
            await asyncio.sleep(0)  # The first are being sent.
        assert ends == []
        carrier.send(answers[:1])

    asyncio.run(send())
    assert [(end.code.name, "read the actions" in str(end)) for end in ends] == [("INVALID_ARGUMENT", True)]


@pytest.mark.parametrize("is_direct", [True, False])
def test_answers_go_to_their_groups_in_one_piece_for_each_connection(is_direct):
    batchers, tasks, episodes = [Batcher(), Batcher()], [], []
    connections = make_connections(batchers, episodes, tasks)
    one = Process(connections, Carrier(is_direct), num_envs=NUM_ENVS, num_groups=4).get_ready([5, 0, 7, 0])
    for group, number in ((2, 3), (0, 1), (3, 4)):
        one.step(number, number, group=group, episodes=[episode(1, 2.5, group)])
    first, second = (batcher.take() for batcher in batchers)  # Each has half of the environments.
    assert [numbers_of(request)[0] for request in (*first, *second)] == [1, 3, 4]
    assert [request.applied for request in (*first, *second)] == [5, 7, 0]
    assert [request.group.env_ids.tolist() for request in second] == [[4, 5], [6, 7]]
    assert episodes == []
    deliver(connections, [(request, b"%d" % numbers_of(request)[0]) for request in (*second, *first)])
    assert one.carrier.sent == [(2, b"3"), (3, b"4"), (0, b"1")]
    assert episodes == [(5, 2.5, 2, {}), (7, 2.5, 3, {}), (1, 2.5, 0, {})]
    assert [list(task.envs) for task in tasks] == [list(range(NUM_ENVS))]


class Conversations(RuleBasedStateMachine):
    """Three processes, which join, leave, come back, and send any messages, and an inference thread.

    The model: the connected processes, their open requests, and who was last ready for each environment.
    """

    def __init__(self):
        super().__init__()
        self.batcher = Batcher()
        self.connections = make_connections([self.batcher])
        self.live, self.last, self.all, self.asked = {}, {}, [], {}
        self.working = []  # The requests that inference has taken.

    def draw(self, data, fits=lambda process: True):
        return data.draw(st.sampled_from([process for process in self.live.values() if fits(process)]))

    def idle(self):
        """The groups that may send a step."""
        ready = [process for process in self.live.values() if process.is_ready]
        return [(p, group) for p in ready for group in range(p.num_groups) if group not in p.waiting]

    def forget(self, process, code):
        """Its connection has ended."""
        del self.live[process.connection.process_id]
        (refusal,) = process.ends
        assert (refusal and refusal.code.name) == code
        assert process.carrier.closed == process.is_ready

    @rule(
        process_id=st.integers(1, 3),
        num_groups=st.integers(1, 2),
        size=st.integers(1, MAX_GROUP),
        task=st.integers(-1, 8),
    )
    def join(self, process_id, num_groups, size, task):
        num_envs = num_groups * size
        old = self.live.get(process_id)
        owned = {env for p in self.live.values() if p is not old for env in p.connection.task.envs}
        free = [
            t for t in range(NUM_ENVS // num_envs) if not owned & set(range(t * num_envs, (t + 1) * num_envs))
        ]
        try:
            new = Process(
                self.connections, num_envs=num_envs, num_groups=num_groups, process_id=process_id, task=task
            )
        except Refusal as refusal:
            assert (free, refusal.code.name) == ([], "RESOURCE_EXHAUSTED")
            new = None
        if old:
            self.forget(old, "ABORTED")
        if new:
            envs = new.connection.task.envs
            assert new.welcome.task in free and (new.welcome.task == task or task not in free)
            assert new.welcome.must_reset == any(self.last.get(e, process_id) != process_id for e in envs)
            new.is_ready, new.waiting, new.has_reset, new.expected = False, {}, set(), []
            self.live[process_id] = new
            self.all.append(new)

    @precondition(lambda self: not all(process.is_ready for process in self.live.values()))
    @rule(data=st.data())
    def get_ready(self, data):
        process = self.draw(data, lambda process: not process.is_ready)
        process.get_ready()
        process.is_ready = True
        self.last |= dict.fromkeys(process.connection.task.envs, process.connection.process_id)

    def ask(self, process, group, done=True):
        """Sends a step with a number that no other has."""
        number = len(self.asked)
        self.asked[number] = process, group
        size = len(process.connection.task.envs) // process.num_groups
        process.step(*[number] * size, group=group, done=done)
        return number

    @precondition(idle)
    @rule(data=st.data(), done=st.booleans())
    def step(self, data, done):
        process, group = data.draw(st.sampled_from(self.idle()))
        number = self.ask(process, group, done)
        if done or group in process.has_reset or not process.welcome.must_reset:
            process.waiting[group] = number
            process.has_reset.add(group)
        else:
            self.forget(process, "INVALID_ARGUMENT")

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def step_wrongly(self, data):
        """Before the Ready, before the last step is answered, or for no group."""
        process = self.draw(data)
        self.ask(process, data.draw(st.sampled_from([*process.waiting, process.num_groups])))
        self.forget(process, "INVALID_ARGUMENT")

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def leave(self, data):
        process = self.draw(data)
        process.connection.end()
        self.forget(process, None)

    @precondition(lambda self: self.batcher.pending)
    @rule()
    def take(self):
        self.working += self.batcher.take()

    @precondition(lambda self: self.working)
    @rule(data=st.data(), is_bad=st.sampled_from([False] * 4 + [True]))
    def answer(self, data, is_bad):
        """Answers a request, whose process may have gone meanwhile."""
        request = data.draw(st.sampled_from(self.working))
        self.working.remove(request)
        number = numbers_of(request)[0]
        process, group = self.asked[number]
        first = process.connection.task.envs.start + group * request.group.num_envs
        assert request.group.first_env == first
        deliver(self.connections, [(request, BadStep("No.") if is_bad else b"%d" % number)])
        if process not in self.live.values():
            return
        if is_bad:
            self.forget(process, "INVALID_ARGUMENT")
        else:
            assert process.waiting.pop(group) == number
            process.expected.append((group, b"%d" % number))

    @invariant()
    def no_environment_belongs_to_two(self):
        owned = [env for process in self.live.values() for env in process.connection.task.envs]
        assert len(owned) == len(set(owned))

    @invariant()
    def every_answer_has_gone_to_who_asked(self):
        for process in self.all:
            assert process.carrier.sent == process.expected
            assert len(process.ends) == (process not in self.live.values())

    @invariant()
    def batches_wait_for_groups_that_can_send_steps(self):
        groups = sum(process.num_groups for process in self.live.values() if process.is_ready)
        assert len(self.batcher.clients) == groups

    def teardown(self):
        """All tasks and clients are given back."""
        for process in self.live.values():
            process.connection.end()
        assert not self.batcher.clients
        assert Process(self.connections, num_envs=NUM_ENVS, num_groups=2, process_id=9).welcome.task == 0


TestConversations = Conversations.TestCase
TestConversations.settings = settings(max_examples=50, stateful_step_count=40, deadline=None, database=None)


def closed(peers):
    """Waits until the server has closed at least one of these connections; returns all such."""
    found, watched = [], list(peers)
    while watched and not found:
        readable, _, _ = select.select(watched, [], [], DEADLINE_SECS)
        assert readable, "The server closes no connection."
        for peer in readable:
            try:
                said = peer.recv(4096)
            except ConnectionError:
                said = b""
            if not said:
                found.append(peer)
    return found


@pytest.mark.parametrize("way", WAYS)
def test_a_stream_without_a_join_ends_with_a_sentence(open_harness, way):
    harness = open_harness(way, join_secs=2.0)
    polite = harness.player()
    polite.welcome()  # From now on it may take its time.
    sentence = "No Join came within 2 s; send it as soon as the stream is open."
    assert harness.player(says_join=False).status() == ("DEADLINE_EXCEEDED", sentence)
    assert polite.call.is_active()


def test_of_too_many_silent_streams_the_oldest_ends(open_harness):
    harness = open_harness("messages", join_secs=3600.0, spare_streams=2 - NUM_ENVS)
    polite, ended = harness.player(), queue.SimpleQueue()
    polite.welcome()
    for _ in range(5):
        silent = harness.player(says_join=False)
        silent.call.add_callback(lambda silent=silent: ended.put(silent))
    sentence = "Too many streams are waiting without a Join; connect again."
    for _ in range(3):
        assert ended.get(timeout=DEADLINE_SECS).status() == ("UNAVAILABLE", sentence)
    assert harness.join(process_id=2).ask(1, 2) == [1, 2]  # There is room for an actor that sends Join.
    assert polite.call.is_active()


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])


@pytest.mark.parametrize(("limit", "said"), [("handshake_secs", b""), ("idle_secs", PREFACE)])
def test_a_connection_without_calls_is_closed_and_one_with_a_stream_is_not(
    open_harness, connect, tmp_path, limit, said
):
    harness = open_harness(**{limit: 2.0})
    polite = harness.player()
    polite.welcome()
    closed([connect(f"{tmp_path}/s", said)])
    assert polite.call.is_active()
    assert harness.join(process_id=2).ask(1, 2) == [1, 2]


def test_silent_connections_leave_the_learner_file_descriptors(open_harness, connect, tmp_path, monkeypatch):
    """Connections beyond a limit are closed at once, and those that were silent before in the end."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    spare = len(os.listdir("/dev/fd")) + 64
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (spare + 20, hard))
    harness = open_harness(handshake_secs=2.0)
    monkeypatch.undo()
    connections = [connect(f"{tmp_path}/s") for _ in range(40)]
    while len(connections) > 20:
        connections = [peer for peer in connections if peer not in closed(connections)]
    assert harness.join().ask(1, 2) == [1, 2]
