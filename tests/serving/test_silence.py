"""Limits on silent peers: they lose their connections, and other actors can join."""

import os
import queue
import resource
import select
import socket
from contextlib import ExitStack

import pytest

from tests.serving.conftest import WAYS
from tests.serving.harness import DEADLINE_SECS, NUM_ENVS

LONG_SECS = 3600.0


@pytest.fixture
def connect(tmp_path):
    """Connects, and sends nothing."""
    with ExitStack() as stack:

        def start():
            peer = stack.enter_context(socket.socket(socket.AF_UNIX))
            peer.connect(f"{tmp_path}/s")
            return peer

        yield start


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
    harness = open_harness(way, join_secs=0.2)
    polite = harness.player()
    polite.welcome()  # From now on it may take its time.
    assert harness.player(says_join=False).status() == (
        "DEADLINE_EXCEEDED",
        "No Join came within 0.2 s; send it as soon as the stream is open.",
    )
    assert polite.call.is_active()


def test_of_too_many_silent_streams_the_oldest_ends(open_harness):
    harness = open_harness("messages", join_secs=LONG_SECS, spare_streams=2 - NUM_ENVS)
    polite, ended = harness.player(), queue.SimpleQueue()
    polite.welcome()
    for _ in range(5):
        silent = harness.player(says_join=False)
        silent.call.add_callback(lambda silent=silent: ended.put(silent))
    for _ in range(3):
        assert ended.get(timeout=DEADLINE_SECS).status() == (
            "UNAVAILABLE",
            "Too many streams are waiting without a Join; connect again.",
        )
    assert harness.join(process_id=2).ask(1, 2) == [1, 2]  # There is room for an actor that sends Join.
    assert polite.call.is_active()


def test_a_connection_without_a_word_is_closed(open_harness, connect):
    harness = open_harness(handshake_secs=0.2)
    closed([connect()])
    assert harness.join().ask(1, 2) == [1, 2]


def test_a_connection_without_calls_is_closed_and_one_with_a_stream_is_not(open_harness, connect):
    polite = open_harness(idle_secs=0.2).player()
    polite.welcome()
    idle = connect()
    idle.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
    closed([idle])
    assert polite.call.is_active()


def test_silent_connections_leave_the_learner_file_descriptors(open_harness, connect, monkeypatch):
    """Connections beyond a limit are closed at once, and those that were silent before in the end."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    spare = len(os.listdir("/dev/fd")) + 64
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (spare + 20, hard))
    harness = open_harness(handshake_secs=2.0)
    monkeypatch.undo()
    connections = [connect() for _ in range(40)]
    while len(connections) > 20:
        connections = [peer for peer in connections if peer not in closed(connections)]
    assert harness.join().ask(1, 2) == [1, 2]
