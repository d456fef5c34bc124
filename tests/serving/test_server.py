"""Server and client over a unix socket: who may come in, and what ends a conversation.

Each test runs without a gateway and with one, which must make no difference.
"""

import concurrent.futures
import contextlib
import threading
import time

import grpc
import numpy as np
import pytest

from seed_rl.serving.batcher import Batcher
from seed_rl.serving.doorbell import make_bell
from seed_rl.serving.server import InferenceServer
from seed_rl.types import ArraySpec
from seed_rl.wire.board import is_supported
from seed_rl.wire.client import LearnerGoneError, NoFreeTaskError, RefusedError, make_hello
from seed_rl.wire.generated import inference_pb2 as pb
from tests.serving.behind_gateway import put_gateway_before
from tests.serving.harness import (
    DEADLINE_SECS,
    MAX_GROUP,
    NUM_ENVS,
    SPEC,
    ask,
    of_catch,
    refusal,
    status,
    step_of,
)
from tests.wire.blocking import BlockingConnection

NEEDS_LINUX = pytest.mark.skipif(not is_supported(), reason="needs Linux: gateways need shared memory")


@pytest.fixture(params=["direct", pytest.param("gateway", marks=NEEDS_LINUX)])
def open_harness(request, open_harness, tmp_path):
    if request.param == "direct":
        return open_harness

    def start(**limits):
        harness = open_harness(bell=make_bell(), **limits)
        put_gateway_before(harness, f"unix:{tmp_path}/gateway", **limits)
        return harness

    return start


def test_describe_tells_what_the_learner_expects(harness):
    description = harness.connect().check(of_catch(), DEADLINE_SECS)
    assert description.num_envs == NUM_ENVS
    assert (description.max_environments_per_message, dict(description.settings)) == (
        MAX_GROUP,
        {"rows": "10"},
    )


@pytest.mark.parametrize(
    ("mine", "words"),
    [
        (of_catch(name="atari"), "environment: atari here, catch there"),
        (of_catch(rows=9), "setting rows: 9 here, 10 there"),
        (
            of_catch(spec=SPEC._replace(observation=ArraySpec((3,), "float32"))),
            r"observation: float32\[3\] here, float32\[2\] there",
        ),
    ],
)
def test_describe_refuses_other_environments(harness, mine, words):
    with pytest.raises(RefusedError, match=words):
        harness.connect().check(mine, DEADLINE_SECS)


def test_describe_without_a_learner_says_so(tmp_path):
    connection = BlockingConnection(f"unix:{tmp_path}/nobody")
    with pytest.raises(LearnerGoneError, match="UNAVAILABLE"):
        connection.check(of_catch(), 0.1)
    connection.close()


def test_steps_get_their_own_actions(harness):
    a, b = harness.join(first_env=0), harness.join(first_env=4, num_envs=3, run_id=2)
    a.send(step_of(1, 2), [])
    b.send(step_of(3, 4, 5), [])
    assert a.receive().tolist() == [1, 2]
    assert b.receive().tolist() == [3, 4, 5]
    assert ask(a, 6, 7, done=False) == [6, 7]
    assert [lease.first_env for lease in harness.leases] == [0, 4]
    assert {r.lease.first_env for r in harness.requests} == {0, 4}


def test_episodes_are_handed_on(harness):
    stream = harness.join()
    stream.send(step_of(1, 2), [pb.Episode(env=1, episode_return=3.5, agent_steps=7)])
    stream.receive()
    (episode,) = harness.episodes
    assert (episode.env, episode.episode_return, episode.agent_steps) == (1, 3.5, 7)


def test_other_protocol_version_is_refused(harness):
    sentence = refusal(harness.join(protocol_version=99))
    assert "protocol version 2 and this actor version 99: install the same seed_rl on both" in sentence


@pytest.mark.parametrize(
    ("mine", "words"),
    [
        (of_catch(name="atari"), "environment: catch here, atari there"),
        (of_catch(rows=9), "setting rows: 10 here, 9 there"),
        (
            of_catch(spec=SPEC._replace(action=ArraySpec((), "int32", (0,), (3,)))),
            "action: int32[], 0 to 9 here, int32[], 0 to 3 there",
        ),
    ],
)
def test_hello_of_other_environments_is_refused(harness, mine, words):
    assert words in refusal(harness.join(mine=mine))


def test_environments_out_of_range_are_refused(harness):
    assert "environments 7 to 8 are not among the learner's 0 to 7" in refusal(harness.join(first_env=7))


def test_group_larger_than_a_batch_is_refused(harness):
    stream = harness.join(num_envs=5)
    sentence = refusal(stream, step_of(*range(5)))
    assert "A group of 5 environments exceeds the learner's --inference_batch_size=4" in sentence


def test_slot_of_a_live_actor_is_refused_and_the_actor_plays_on(open_harness):
    harness = open_harness(takeover_secs=0.05)
    first = harness.join(run_id=1)
    assert ask(first, 1, 2) == [1, 2]
    assert "Task 0 is taken by a live actor" in refusal(harness.join(run_id=2, first_env=1))
    assert ask(first, 3, 4, done=False) == [3, 4]


def test_slot_of_an_actor_that_goes_is_given_to_the_next(open_harness):
    harness = open_harness(takeover_secs=DEADLINE_SECS)
    first = harness.join(run_id=1)
    assert ask(first, 1, 2) == [1, 2]
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        joining = pool.submit(harness.join, run_id=2)
        first.close()
        assert ask(joining.result(DEADLINE_SECS), 3, 4) == [3, 4]
    assert [lease.is_restart for lease in harness.leases] == [False, True]


def test_same_process_takes_its_slot_over(harness):
    old = harness.join(run_id=1)
    assert ask(old, 1, 2) == [1, 2]
    new = harness.join(run_id=1)
    assert ask(new, 3, 4, done=False) == [3, 4]  # Its episodes go on.
    with pytest.raises(LearnerGoneError):
        old.receive()
    assert not harness.leases[-1].is_restart


def test_new_actor_in_a_used_place_must_start_with_a_reset(harness):
    first = harness.join(run_id=1)
    assert ask(first, 1, 2) == [1, 2]
    first.close()
    assert "must be a reset: set done" in refusal(harness.join(run_id=2), step_of(1, 2, done=False))


def test_living_actor_goes_on_with_a_learner_that_restarted(harness):
    """The new learner has not met it, and its episodes are under way."""
    assert ask(harness.join(run_id=1), 3, 4, done=False) == [3, 4]


BAD_STEPS = {
    "one byte short": (pb.Step(records=bytes(27)), "must be 28 bytes"),
    "no bytes": (pb.Step(), "must be 28 bytes"),
    "refused by inference": (
        pb.Step(records=bytes(20) + np.float32([-1, 0]).tobytes()),
        "Minus one.",
    ),
}


@pytest.mark.parametrize(("step", "words"), BAD_STEPS.values(), ids=BAD_STEPS)
def test_bad_step_ends_only_its_own_stream(harness, step, words):
    good = harness.join(run_id=1)
    assert ask(good, 1, 2) == [1, 2]
    hello = make_hello(of_catch(), run_id=2, task=1, first_env=2, num_envs=2)
    messages = pb.ActRequest(hello=hello), pb.ActRequest(step=step)
    code, sentence = status(harness.raw_call(*(m.SerializeToString() for m in messages)))
    assert code == grpc.StatusCode.INVALID_ARGUMENT
    assert words in sentence
    assert ask(good, 3, 4, done=False) == [3, 4]
    assert ask(harness.join(run_id=3, first_env=2), 5, 6) == [5, 6]  # Its place is free again.


@pytest.mark.parametrize(
    "messages", [[pb.ActRequest(step=pb.Step(records=bytes(14)))], [pb.ActRequest()], []]
)
def test_first_message_must_be_a_hello(harness, messages):
    code, sentence = status(harness.raw_call(*(m.SerializeToString() for m in messages)))
    assert (code, sentence) == (
        grpc.StatusCode.INVALID_ARGUMENT,
        "The first message of a stream must be a hello.",
    )


def test_second_hello_is_refused(harness):
    hello = pb.ActRequest(hello=make_hello(of_catch(), run_id=2, task=1, first_env=2, num_envs=2))
    code, sentence = status(harness.raw_call(*[hello.SerializeToString()] * 2))
    assert (code, sentence) == (
        grpc.StatusCode.INVALID_ARGUMENT,
        "After the hello every message must be a step.",
    )


@pytest.mark.parametrize("after_hello", [False, True])
def test_garbage_ends_only_its_own_stream(harness, after_hello):
    good = harness.join(run_id=1)
    assert ask(good, 1, 2) == [1, 2]
    hello = pb.ActRequest(hello=make_hello(of_catch(), run_id=2, task=1, first_env=2, num_envs=2))
    messages = [hello.SerializeToString()] * after_hello + [b"\xff\xfe garbage \x00"]
    assert status(harness.raw_call(*messages)) == (
        grpc.StatusCode.INVALID_ARGUMENT,
        "The message is not an ActRequest of protos/inference.proto.",
    )
    assert ask(good, 3, 4, done=False) == [3, 4]
    assert ask(harness.join(run_id=3, first_env=2), 5, 6) == [5, 6]


def test_oversized_message_ends_only_its_own_stream(harness):
    good = harness.join(run_id=1)
    assert ask(good, 1, 2) == [1, 2]
    limit = harness.connect().check(of_catch(), DEADLINE_SECS).max_message_bytes
    huge = pb.ActRequest(step=pb.Step(records=bytes(limit + 1))).SerializeToString()
    code, sentence = status(harness.raw_call(huge))
    assert code == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert str(limit) in sentence
    assert ask(good, 3, 4, done=False) == [3, 4]


def test_tasks_are_leased_given_up_and_taken_again(harness):
    def lease(run_id, task=-1, num_envs=4):
        return harness.connect().lease_task(run_id, num_envs, task, DEADLINE_SECS)

    assert (lease(1).task, lease(2).task, lease(1).task) == (0, 1, 0)
    with pytest.raises(NoFreeTaskError, match="All 8 environments of the learner are taken"):
        lease(3)
    with pytest.raises(RefusedError, match="An actor of 9 environments does not fit the learner's 8"):
        lease(3, num_envs=9)
    stream = harness.join(run_id=2, first_env=4, num_envs=4)
    assert ask(stream, 1, 2, 3, 4) == [1, 2, 3, 4]
    with pytest.raises(NoFreeTaskError):
        lease(3)
    stream.close()
    deadline, taken = time.monotonic() + DEADLINE_SECS, None
    while taken is None and time.monotonic() < deadline:
        with contextlib.suppress(NoFreeTaskError):  # until the server sees that the stream has ended
            taken = lease(3)
    assert (taken.task, taken.must_restart) == (1, True)


def test_the_second_actor_gets_the_evaluation_environments(harness):
    leases = [harness.connect().lease_task(run_id, 2, -1, DEADLINE_SECS) for run_id in range(4)]
    assert [lease.task for lease in leases] == [0, 3, 1, 2]


def test_client_that_vanishes_in_mid_batch_harms_nobody(harness):
    good, bad = harness.join(run_id=1), harness.join(run_id=2, first_env=2)
    assert ask(good, 1, 2) == [1, 2]
    assert ask(bad, 1, 2) == [1, 2]
    harness.answering.clear()
    bad.send(step_of(3, 4, done=False), [])
    good.send(step_of(5, 6, done=False), [])
    bad.close()
    harness.answering.set()
    assert good.receive().tolist() == [5, 6]
    assert ask(harness.join(run_id=3, first_env=2), 7, 8) == [7, 8]


def test_end_of_training_completes_every_stream(harness):
    waiting, away = harness.join(run_id=1), harness.join(run_id=2, first_env=2)
    assert ask(away, 1, 2) == [1, 2]
    harness.batcher.close()  # Nobody will answer.
    waiting.send(step_of(1, 2), [])
    stopper = threading.Thread(target=harness.server.stop)
    stopper.start()
    assert waiting.receive() is None
    assert ask(away, 3, 4, done=False) is None
    stopper.join(DEADLINE_SECS)
    assert not stopper.is_alive()


def test_stop_with_a_reason_tells_actors_to_come_back(harness):
    waiting, away = harness.join(run_id=1), harness.join(run_id=2, first_env=2)
    assert ask(away, 1, 2) == [1, 2]
    harness.batcher.close()
    waiting.send(step_of(1, 2), [])
    stopper = threading.Thread(target=harness.server.stop, args=("The learner was stopped.",))
    stopper.start()
    with pytest.raises(LearnerGoneError, match="UNAVAILABLE: The learner was stopped"):
        waiting.receive()
    with pytest.raises(LearnerGoneError, match="The learner was stopped"):
        ask(away, 3, 4, done=False)
    stopper.join(DEADLINE_SECS)
    assert not stopper.is_alive()


def test_port_0_picks_a_free_port_and_a_used_one_is_refused():
    server = InferenceServer("localhost:0", of_catch(), 1, [Batcher(1, 1.0)], 1)
    assert server.port > 0
    with pytest.raises(ValueError, match=f"Cannot listen on --server_address=localhost:{server.port}"):
        InferenceServer(f"localhost:{server.port}", of_catch(), 1, [Batcher(1, 1.0)], 1)
    server.stop()
    server.stop()  # A second stop does nothing.
