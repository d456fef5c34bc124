"""Peers that say nothing: they lose what they hold, and those who speak find room."""

import contextlib
import os
import queue
import resource
import select
import socket

import grpc
import pytest

from seed_rl.serving.batcher import Batcher
from seed_rl.serving.server import InferenceServer
from seed_rl.serving.silence import Limits
from seed_rl.types import ArraySpec, EnvironmentSpec
from seed_rl.wire.client import make_hello
from seed_rl.wire.generated import inference_pb2 as pb
from seed_rl.wire.protocol import EnvironmentDescription
from tests.wire.blocking import BlockingConnection

DEADLINE_SECS = 30.0
LONG_SECS = 3600.0
NUM_ENVS = 2
SPEC = EnvironmentSpec(ArraySpec((2,), "float32"), ArraySpec((), "int32", (0,), (9,)))
DESCRIPTION = EnvironmentDescription("catch", {}, SPEC)


class Peers:
    """A server with limits, and peers of all kinds."""

    def __init__(self, path, stack, **limits):
        self._path, self._stack = path, stack
        self._batcher = Batcher(1, 1.0)
        self._server = InferenceServer(
            f"unix:{path}", DESCRIPTION, NUM_ENVS, [self._batcher], 1, limits=Limits(**limits)
        )
        stack.callback(self._server.stop)
        stack.callback(self._batcher.close)

    def connect(self):
        """A connection without a word."""
        peer = self._stack.enter_context(socket.socket(socket.AF_UNIX))
        peer.connect(str(self._path))
        return peer

    def call(self, *messages):
        """A stream that says these messages and then no more."""
        options = [("grpc.use_local_subchannel_pool", 1)]
        channel = self._stack.enter_context(grpc.insecure_channel(f"unix:{self._path}", options))
        said = queue.SimpleQueue()
        for message in messages:
            said.put(message)
        self._stack.callback(said.put, None)
        return channel.stream_stream("/seed_rl.Inference/Act")(iter(said.get, None), timeout=DEADLINE_SECS)

    def describe(self):
        connection = BlockingConnection(f"unix:{self._path}")
        try:
            return connection.check(DESCRIPTION, DEADLINE_SECS)
        finally:
            connection.close()


@pytest.fixture
def start(tmp_path):
    """Starts the server of `Peers` with some limits."""
    with contextlib.ExitStack() as stack:
        yield lambda **limits: Peers(tmp_path / "s", stack, **limits)


def hello(env):
    said = make_hello(DESCRIPTION, run_id=env, task=env, first_env=env, num_envs=1)
    return pb.ActRequest(hello=said).SerializeToString()


def end_of(call):
    with pytest.raises(grpc.RpcError) as caught:
        list(call)
    return caught.value.code(), caught.value.details()


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


def test_a_stream_without_a_hello_ends_with_a_sentence(start):
    code, sentence = end_of(start(hello_secs=0.2).call())
    assert code == grpc.StatusCode.DEADLINE_EXCEEDED
    assert sentence == "No hello came within 0.2 s; send it as soon as the stream is open."


def test_a_stream_that_has_said_hello_may_take_its_time(start):
    peers = start(hello_secs=0.2)
    polite = peers.call(hello(0))
    polite.initial_metadata()
    assert end_of(peers.call())[0] == grpc.StatusCode.DEADLINE_EXCEEDED  # Later than the other.
    assert polite.is_active()


def test_of_too_many_silent_streams_the_oldest_ends(start):
    peers = start(hello_secs=LONG_SECS, spare_streams=0)
    polite = peers.call(hello(1))
    polite.initial_metadata()
    ended = queue.SimpleQueue()
    for _ in range(NUM_ENVS + 3):
        call = peers.call()
        call.add_callback(lambda call=call: ended.put(call))
    for _ in range(3):
        assert end_of(ended.get(timeout=DEADLINE_SECS)) == (
            grpc.StatusCode.UNAVAILABLE,
            "Too many streams are waiting without a hello; connect again.",
        )
    late = peers.call(hello(0))
    late.initial_metadata()  # There is room for an actor that speaks.
    assert late.is_active() and polite.is_active()


def test_a_connection_without_a_word_is_closed(start):
    peers = start(handshake_secs=0.2)
    closed([peers.connect()])
    assert peers.describe().num_envs == NUM_ENVS


def test_a_connection_without_calls_is_closed_and_one_with_a_stream_is_not(start):
    peers = start(idle_secs=0.2)
    polite = peers.call(hello(0))
    polite.initial_metadata()
    idle = peers.connect()
    idle.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
    closed([idle])
    assert polite.is_active()


def test_silent_connections_leave_the_learner_file_descriptors(start, monkeypatch):
    """What is beyond a limit is closed at once, and those that were silent before in the end."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    spare = len(os.listdir("/dev/fd")) + 64
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (spare + 20, hard))
    peers = start(handshake_secs=2.0)
    monkeypatch.undo()
    connections = [peers.connect() for _ in range(40)]
    while len(connections) > 20:
        connections = [peer for peer in connections if peer not in closed(connections)]
    assert peers.describe().num_envs == NUM_ENVS
