"""What an actor does about a learner that keeps it waiting, or whose environments another process has."""

import concurrent.futures
import contextlib
import logging
import queue
import threading
import time

import grpc
import pytest

from seed_rl.actor.loop import Patience
from seed_rl.environments.specs import environment_spec
from seed_rl.environments.suites.catch import SUITE, CatchConfig
from seed_rl.serving.batcher import Batcher
from seed_rl.serving.doorbell import make_bell
from seed_rl.serving.server import InferenceServer
from seed_rl.serving.silence import Limits
from seed_rl.wire.board import is_supported
from seed_rl.wire.client import LearnerGoneError, RefusedError, make_hello
from seed_rl.wire.generated import inference_pb2 as pb
from seed_rl.wire.hosts import LearnerHosts
from seed_rl.wire.protocol import PROTOCOL_VERSION, SERVICE, EnvironmentDescription
from tests.players import Player
from tests.wire.blocking import BlockingConnection

DEADLINE_SECS = 30.0
ENVIRONMENT = CatchConfig(rows=4, columns=3)
TRANSPORTS = ("grpc", "shared_memory") if is_supported() else ("grpc",)
DESCRIPTION = EnvironmentDescription(
    "catch", ENVIRONMENT.to_dict(), environment_spec(SUITE.make(ENVIRONMENT, 0), ENVIRONMENT)
)


def wait_until(condition, what):
    deadline = time.monotonic() + DEADLINE_SECS
    while not condition():
        assert time.monotonic() < deadline, f"waited for {what}"
        time.sleep(0.01)


def play(address, patience, connect_timeout_secs=DEADLINE_SECS, transport="auto"):
    return Player(
        address,
        ENVIRONMENT,
        connect_timeout_secs=connect_timeout_secs,
        patience=patience,
        transport=transport,
    )


@pytest.fixture(params=TRANSPORTS)
def transport(request):
    return request.param


class Learner:
    """A server that always answers with the first action."""

    def __init__(self, address, stack, num_envs=2, hosts=None):
        self.address, self._stack = address, stack
        self.leases = []
        self._batcher = Batcher(4, 0.01, make_bell())
        self.server = InferenceServer(
            address,
            DESCRIPTION,
            num_envs,
            [self._batcher],
            2,
            self.leases.append,
            limits=Limits(takeover_secs=0.05),
            hosts=hosts,
        )
        thread = threading.Thread(target=self._answer, daemon=True)
        thread.start()
        for call in (lambda: thread.join(DEADLINE_SECS), self._batcher.close, self.server.stop):
            stack.callback(call)

    def hold(self):
        """A stream of another process that holds the first environment."""
        connection = BlockingConnection(self.address)
        self._stack.callback(connection.close)
        hello = make_hello(DESCRIPTION, run_id=1, task=0, first_env=0, num_envs=1)
        return connection.open(DESCRIPTION, hello)

    def _answer(self):
        while (batch := self._batcher.next_batch()) is not None:
            self._batcher.finish([client for client, _ in batch])
            answers = [(request, bytes(4 * request.lease.num_envs)) for _, request in batch]
            self.server.deliver(answers)


@pytest.fixture
def learner(tmp_path):
    with contextlib.ExitStack() as stack:
        yield Learner(f"unix:{tmp_path}/s", stack)


def test_a_fixed_task_is_asked_for_again_until_its_old_stream_is_gone(learner, caplog, transport):
    caplog.set_level(logging.WARNING)
    old = learner.hold()
    player = play(learner.address, Patience(taken_secs=DEADLINE_SECS), transport=transport)
    wait_until(lambda: "Task 0 is taken by a live actor" in caplog.text, "a refusal")
    assert player.is_alive()
    old.close()
    wait_until(lambda: len({lease.first_env for lease in learner.leases[1:]}) == 2, "both groups to play")
    learner.server.stop()
    assert player.finished(DEADLINE_SECS) and player.error is None


@pytest.mark.parametrize(
    ("patience", "connect_timeout_secs"), [(Patience(taken_secs=0.3), DEADLINE_SECS), (Patience(), 0.3)]
)
def test_a_fixed_task_that_stays_taken_is_given_up(learner, patience, connect_timeout_secs, transport):
    learner.hold()
    player = play(learner.address, patience, connect_timeout_secs, transport)
    assert player.finished(DEADLINE_SECS)
    assert isinstance(player.error, RefusedError)
    assert "Task 0 is taken by a live actor" in str(player.error)


class Mute:
    """A learner that accepts the first hello of a connection and answers none of the others."""

    def __init__(self, address):
        self.calls = queue.SimpleQueue()  # (environment, context) of each hello
        self._accepted = False
        self._server = grpc.server(concurrent.futures.ThreadPoolExecutor(8))
        handlers = {
            "Describe": grpc.unary_unary_rpc_method_handler(
                self._describe, pb.DescribeRequest.FromString, pb.Description.SerializeToString
            ),
            "Act": grpc.stream_stream_rpc_method_handler(
                self._act, pb.ActRequest.FromString, pb.ActResponse.SerializeToString
            ),
        }
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
        self._server.add_insecure_port(address)
        self._server.start()

    def stop(self):
        self._server.stop(None).wait(DEADLINE_SECS)

    def _describe(self, request, context):
        description = pb.Description(protocol_version=PROTOCOL_VERSION)
        DESCRIPTION.describe_into(description)
        return description

    def _act(self, requests, context):
        hello = next(requests).hello
        left = threading.Event()
        context.add_callback(left.set)
        if hello.first_env == 0:
            context.send_initial_metadata(())
        self.calls.put((hello.first_env, left))
        left.wait(DEADLINE_SECS)
        return
        yield


def test_a_hello_without_an_answer_is_given_up_with_the_streams_beside_it(tmp_path):
    address = f"unix:{tmp_path}/s"
    mute = Mute(address)
    player = play(address, Patience(hello_secs=0.3), connect_timeout_secs=0.1)
    first, second = (mute.calls.get(timeout=DEADLINE_SECS) for _ in range(2))
    assert [first[0], second[0]] == [0, 1]
    assert player.finished(DEADLINE_SECS)
    assert isinstance(player.error, LearnerGoneError)
    assert "no answer to a hello within 0.3 s" in str(player.error)
    mute.stop()


def test_no_stream_stays_open_while_an_actor_waits_to_connect_again(tmp_path):
    address = f"unix:{tmp_path}/s"
    mute = Mute(address)
    connection = BlockingConnection(address)
    hellos = [make_hello(DESCRIPTION, run_id=1, task=0, first_env=env, num_envs=1) for env in range(2)]
    with pytest.raises(LearnerGoneError, match=r"no answer to a hello within 0\.3 s") as caught:
        connection.open_all(DESCRIPTION, hellos, 0.3)
    for _ in range(2):  # The connection itself is still open.
        _, left = mute.calls.get(timeout=DEADLINE_SECS)
        assert left.wait(DEADLINE_SECS / 2)
    del caught  # Until here it kept the calls: gRPC ends one that nobody refers to any more.
    connection.close()
    mute.stop()


def test_an_actor_goes_to_the_host_that_serves_its_task(tmp_path, transport):
    with contextlib.ExitStack() as stack:
        addresses = (f"unix:{tmp_path}/0", f"unix:{tmp_path}/1")
        learners = [
            Learner(address, stack, num_envs=4, hosts=LearnerHosts(addresses, index))
            for index, address in enumerate(addresses)
        ]
        players = [Player(addresses[0], ENVIRONMENT, task="auto", transport=transport) for _ in range(2)]
        wait_until(lambda: all(len(learner.leases) == 2 for learner in learners), "both to be served")
        assert [sorted(lease.first_env for lease in learner.leases) for learner in learners] == [
            [0, 1],
            [2, 3],
        ]
        for learner in learners:
            learner.server.stop()
        assert all(player.finished(DEADLINE_SECS) and player.error is None for player in players)
