"""What only a gateway does; test_server.py checks that the rest is as without one."""

import threading

import grpc
import pytest

from seed_rl.serving.gateway import Gateway
from seed_rl.serving.listener import Listener
from seed_rl.wire.board import is_supported
from seed_rl.wire.client import LearnerGoneError, RefusedError, make_hello
from seed_rl.wire.generated import inference_pb2 as pb
from seed_rl.wire.protocol import SERVICE
from tests.serving.behind_gateway import put_gateway_before
from tests.serving.harness import DEADLINE_SECS, NUM_ENVS, ask, of_catch, refusal, status, step_of
from tests.serving.on_board import OnBoard
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(not is_supported(), reason="needs Linux: gateways need shared memory")


@pytest.fixture
def open_gateway(open_board, tmp_path):
    """Opens the test's harness with a gateway before it; `limits` are the gateway's."""

    def start(limits=None, **learner_limits):
        harness = open_board(**learner_limits)
        harness.listener, harness.gateway = put_gateway_before(
            harness, f"unix:{tmp_path}/gateway", **(limits or {})
        )
        return harness

    return start


@pytest.fixture
def harness(open_gateway):
    return open_gateway()


def num_links(harness):
    return harness.server._board.num_connections


def test_streams_of_all_sizes_get_their_own_actions(harness):
    streams = [harness.join(run_id=n, first_env=first, num_envs=n) for n, first in ((1, 0), (2, 1), (4, 3))]
    for number, stream in enumerate(streams, start=1):
        stream.send(step_of(*range(number, number + 2 ** (number - 1))), [])
    answers = [stream.receive().tolist() for stream in streams]
    assert answers == [[1], [2, 3], [3, 4, 5, 6]]
    assert {request.lease.num_envs for request in harness.requests} == {1, 2, 4}


def test_all_environments_step_at_once(harness):
    streams = [harness.join(run_id=1, first_env=i, num_envs=1) for i in range(NUM_ENVS)]
    for turn in range(3):
        for i, stream in enumerate(streams):
            stream.send(step_of(10 * turn + i, done=not turn), [])
        assert [stream.receive().tolist() for stream in streams] == [[10 * turn + i] for i in range(NUM_ENVS)]
    assert num_links(harness) == 1


def test_memory_that_streams_have_used_up_is_freed(harness):
    """There is room for `NUM_ENVS` streams at a time, and no stream gets the memory of another."""
    for turn in range(3 * NUM_ENVS):
        stream = harness.join(run_id=turn, num_envs=1)
        assert ask(stream, turn) == [turn]
        stream.close()
    wait_until(lambda: num_links(harness) == 0, "the end of the links that are used up", DEADLINE_SECS)


def test_an_actor_that_vanishes_with_an_unanswered_step_leaves_its_memory_to_nobody(harness):
    harness.answering.clear()
    for turn in range(NUM_ENVS):
        harness.join(run_id=turn, num_envs=1).send(step_of(7), [])
        harness.join(run_id=turn, num_envs=1).close()  # Takes over, and goes.
    harness.answering.set()
    stream = harness.join(run_id=100, num_envs=1)
    assert [ask(stream, n, done=n == 3) for n in (3, 4, 5)] == [[3], [4], [5]]


def test_episodes_come_with_the_environments_that_had_them(harness):
    stream = harness.join(first_env=4)
    stream.send(step_of(1, 2), [pb.Episode(env=5, episode_return=-2.5, agent_steps=3)])
    stream.receive()
    assert ask(stream, 3, 4, done=False) == [3, 4]
    assert [(e.env, e.episode_return, e.agent_steps) for e in harness.episodes] == [(5, -2.5, 3)]


def test_an_episode_of_another_stream_is_refused(harness):
    stream = harness.join(first_env=4)
    stream.send(step_of(1, 2), [pb.Episode(env=3, episode_return=0.0, agent_steps=3)])
    with pytest.raises(RefusedError, match="environment 3"):
        stream.receive()
    assert harness.requests == []


def test_a_stream_without_a_hello_ends(open_gateway):
    harness = open_gateway(limits={"hello_secs": 0.05})
    silent = threading.Event()

    def nothing():
        silent.wait(DEADLINE_SECS)
        yield b""

    with grpc.insecure_channel(harness.address) as channel:
        call = channel.stream_stream("/seed_rl.Inference/Act")(nothing(), timeout=DEADLINE_SECS)
        code, sentence = status(call)
        silent.set()
    assert (code, sentence) == (
        grpc.StatusCode.DEADLINE_EXCEEDED,
        "No hello came within 0.05 s; send it as soon as the stream is open.",
    )


def test_one_stream_too_many_without_a_hello_ends_the_oldest(open_gateway):
    harness = open_gateway(limits={"spare_streams": -NUM_ENVS + 1})
    quiet = threading.Event()

    def nothing():
        quiet.wait(DEADLINE_SECS)
        yield b""

    with grpc.insecure_channel(harness.address) as channel:
        act = channel.stream_stream("/seed_rl.Inference/Act")
        first = act(nothing(), timeout=DEADLINE_SECS)
        wait_until(lambda: harness.gateway._streams, "the first stream", DEADLINE_SECS)
        second = act(nothing(), timeout=DEADLINE_SECS)
        assert status(first)[0] == grpc.StatusCode.UNAVAILABLE
        assert not second.done()
        second.cancel()
        quiet.set()


def test_an_actor_on_this_machine_shares_its_memory_with_the_learner_itself(open_gateway):
    harness = open_gateway(takeover_secs=0.05)
    actor = OnBoard(harness, (0, 2), (2, 1))
    assert actor.ask(1, 2) == [1, 2]
    assert actor.ask(3, stream=1) == [3]
    assert num_links(harness) == 1  # The gateway has none.
    assert "Task 0 is taken" in refusal(harness.join(run_id=9, first_env=2, num_envs=1), step_of(0))


def test_after_such_a_hello_the_learner_refuses_messages(harness):
    actor = OnBoard(harness, (0, 2), says_hello=False)
    hello = make_hello(of_catch(), run_id=1, task=0, first_env=0, num_envs=2, board=actor.link.place(0))
    messages = pb.ActRequest(hello=hello), pb.ActRequest(step=pb.Step(records=bytes(28)))
    assert status(harness.raw_call(*(m.SerializeToString() for m in messages))) == (
        grpc.StatusCode.INVALID_ARGUMENT,
        "After the hello, steps of this stream go to the board.",
    )


def test_a_hello_with_somebody_elses_memory_is_refused_by_the_learner(harness):
    with pytest.raises(LearnerGoneError, match="connection to the board has ended"):
        actor = OnBoard(harness, (0, 2), connection=1)
        actor.streams[0].receive()


def test_the_end_of_training_reaches_actors_on_and_off_the_board(harness):
    on, off = OnBoard(harness, (0, 2)), harness.join(run_id=2, first_env=2)
    assert on.ask(1, 2) == ask(off, 1, 2) == [1, 2]
    stopper = threading.Thread(target=harness.server.stop)
    stopper.start()
    assert on.streams[0].receive() is None
    assert ask(off, 3, 4, done=False) is None
    stopper.join(DEADLINE_SECS)
    assert not stopper.is_alive()


def test_a_gateway_that_stops_frees_the_environments_for_others(harness, tmp_path, monkeypatch):
    monkeypatch.setattr("seed_rl.serving.listener._GRACE_SECS", 0.1)
    stream = harness.join(run_id=1)
    assert ask(stream, 1, 2) == [1, 2]
    learner = f"unix:{tmp_path}/socket"
    harness.listener.run(harness.gateway.close(0.0))
    harness.listener.stop()
    with pytest.raises(LearnerGoneError):
        stream.receive()
    harness.address = learner
    assert ask(harness.join(run_id=2), 3, 4) == [3, 4]
    wait_until(lambda: harness.leases[-1].is_restart, "the next actor's lease", DEADLINE_SECS)


def test_leases_come_from_the_learner_with_its_refusals(harness):
    connection = harness.connect()
    assert connection.lease_task(1, 4, -1, DEADLINE_SECS).task == 0
    with pytest.raises(RefusedError, match="An actor of 9 environments does not fit the learner's 8"):
        connection.lease_task(1, 9, -1, DEADLINE_SECS)


def test_without_a_learner_actors_are_told_to_come_back(harness, tmp_path):
    description = harness.connect().check(of_catch(), DEADLINE_SECS)
    description.board.address = f"{tmp_path}/nobody"
    listener = Listener(f"unix:{tmp_path}/lonely", description.max_message_bytes, (SERVICE,))

    async def make():
        return Gateway(grpc.aio.insecure_channel(f"unix:{tmp_path}/nobody"), [], description)

    listener.add(listener.run(make()).handlers())
    harness.to_close(listener.stop)
    harness.address = f"unix:{tmp_path}/lonely"
    with pytest.raises(LearnerGoneError, match="UNAVAILABLE: The gateway cannot reach the learner"):
        ask(harness.join(), 1, 2)
    with pytest.raises(LearnerGoneError, match="UNAVAILABLE"):
        harness.connect().lease_task(1, 2, -1, DEADLINE_SECS)
