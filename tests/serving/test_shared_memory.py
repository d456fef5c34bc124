"""Shared memory: the processes that get it, wake-ups, and processes that misuse it."""

import contextlib
import errno
import gc
import os
import signal
import socket
import stat
import struct
import subprocess
import sys

import numpy as np
import pytest

from seed_rl.serving import shared_memory
from seed_rl.wire.generated import inference_pb2 as pb
from seed_rl.wire.shared_memory import END, MOST_GROUPS, MemoryLink, NoMemoryError, socket_address
from tests.descriptors import descriptors_after
from tests.serving.harness import DEADLINE_SECS, NUM_ENVS, RECORD, SPEC, mappings
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(
    shared_memory.make_wake_up_set() is None, reason="needs Linux: no shared memory elsewhere"
)

GONE = "UNAVAILABLE", "The connection to the shared memory has ended; connect again."


@pytest.fixture
def harness(open_harness):
    return open_harness()


def is_closed(peer):
    """Waits for the end of the connection, before which nothing came."""
    with contextlib.suppress(ConnectionResetError):
        return peer.recv(100) == b""
    return True


def test_wake_ups_may_come_in_pieces_and_in_bundles(harness):
    player = harness.join(num_envs=4, num_groups=2)
    player.write(1, 2)
    player.write(3, 4, group=1)
    both = struct.pack("<II", 0, 1)
    for piece in (both[:3], both[3:6], both[6:]):
        player.link._link.send(piece)
    assert [player.answer(0), player.answer(1)] == [[1, 2], [3, 4]]


@pytest.mark.parametrize("number", [1, 7, MOST_GROUPS, 2**31 - 1, 2**31 + 9, END])
def test_a_wake_up_for_no_group_ends_its_connection(harness, number):
    good, bad = harness.join(), harness.join(process_id=2)
    bad.link.send([number])
    assert bad.answer() is None
    assert bad.status()[0] == "INVALID_ARGUMENT"
    assert good.ask(1, 2) == [1, 2]


def test_what_a_new_process_changes_after_it_was_checked_does_not_count(harness):
    old = harness.join()
    assert old.ask(1, 2) == [1, 2]
    old.close()
    wait_until(lambda: not harness.server._connections._connections, "the end", DEADLINE_SECS)
    new = harness.join(process_id=2)
    taken = harness.taken
    harness.answering.clear()
    new.send(3, 4)
    wait_until(lambda: harness.taken > taken, "the step to arrive", DEADLINE_SECS)
    new.write(5, 6, done=False)
    harness.answering.set()
    assert new.answer() == [3, 4]
    assert np.frombuffer(harness.requests[-1].records, RECORD)["done"].all()


def test_the_end_of_the_socket_ends_the_connection(harness):
    player = harness.join()
    assert player.ask(1, 2) == [1, 2]
    player.link.close()
    assert player.status() == GONE
    assert harness.join(process_id=2).ask(3, 4) == [3, 4]


def test_a_process_that_reads_no_wake_ups_loses_its_connection_and_holds_up_nobody(harness):
    deaf, good = harness.join(process_id=1), harness.join(process_id=2)
    (connection,) = (c for c in harness.server._connections._connections if c.process_id == 1)
    actions = bytes(8)
    for _ in range(2 * MOST_GROUPS):  # As many as well-behaved processes may leave unread.
        connection.carrier.send([(0, actions)])
    assert deaf.call.is_active()

    def has_ended():
        connection.carrier.send([(0, actions)])
        return not deaf.call.is_active()

    wait_until(has_ended, "the end of the connection", DEADLINE_SECS)
    assert deaf.status() == GONE
    assert good.ask(3, 4) == [3, 4]


WRITER = """
import sys, threading
from tests.serving.harness import Player
player = Player(sys.argv[1], "memory", process_id=5)
player.get_ready()
assert player.ask(1, 2) == [1, 2]
player.link.parts[0].records[: 20] = bytes(20)
print("half", flush=True)
threading.Event().wait()
"""


def test_a_process_that_is_killed_while_it_writes_leaves_no_step(harness):
    good = harness.join()
    command = [sys.executable, "-c", WRITER, harness.address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "half\n"
        process.send_signal(signal.SIGKILL)
    is_alone = lambda: len(harness.server._connections._connections) == 1  # noqa: E731
    wait_until(is_alone, "its environments to be free", DEADLINE_SECS)
    assert len(harness.requests) == 1
    assert good.ask(1, 2) == [1, 2]
    new = harness.join(process_id=6)
    assert new.ask(3, 4) == [3, 4]


def test_memory_of_processes_that_have_gone_is_free_at_once(harness):
    gc.collect()
    before = mappings()
    gc.disable()
    try:
        for number in range(10):
            player = harness.join(process_id=number)
            assert player.ask(1, 2) == [1, 2]
            player.close()
            wait_until(lambda: not harness.server._connections._connections, "the end", DEADLINE_SECS)
            harness.requests.clear()
            player.link = None
        wait_until(lambda: mappings() <= before + 1, "the memory", DEADLINE_SECS)
    finally:
        gc.enable()


def test_a_key_is_good_for_one_connection_and_until_the_ready(harness, connect):
    player = harness.player()
    memory = player.get_ready().memory
    assert player.ask(1, 2) == [1, 2]
    late = harness.player(process_id=2)
    unused = late.welcome().memory
    late.say(ready=pb.Ready(applied=[0]))
    late.send_zeros(0)
    assert late.answer() == [0, 0]
    for said in (memory.key, unused.key, bytes(16), b"GET / HTTP/1.1\r\n\r\n"):
        # A process without a key gets no answer.
        assert is_closed(connect(socket_address(memory.address), said))


def test_another_users_process_is_refused(harness, monkeypatch):
    other = shared_memory._CREDENTIALS.pack(os.getpid(), os.geteuid() + 1, os.getegid())
    monkeypatch.setattr(socket.socket, "getsockopt", lambda *_: other)
    with pytest.raises(NoMemoryError, match=f"runs as user {os.geteuid() + 1} and the learner as"):
        harness.player().get_ready()


def test_peers_that_say_nothing_are_sent_away(open_harness, connect):
    harness = open_harness(handshake_secs=2.0)
    memory = harness.player().welcome().memory
    for said in (b"", memory.key[:8]):
        assert is_closed(connect(socket_address(memory.address), said))
    assert harness.join(process_id=2).ask(1, 2) == [1, 2]


def test_of_too_many_silent_peers_the_oldest_goes(open_harness, connect):
    harness = open_harness(handshake_secs=3600.0, spare_streams=3 - NUM_ENVS)
    address = socket_address(harness.player().welcome().memory.address)
    peers = [connect(address) for _ in range(8)]
    assert all(is_closed(peer) for peer in peers[:5])
    assert harness.join(process_id=2).ask(1, 2) == [1, 2]
    for peer in peers[-2:]:
        peer.setblocking(False)
        with pytest.raises(BlockingIOError):
            peer.recv(1)


def test_without_descriptors_the_server_waits_a_moment(harness, monkeypatch):
    monkeypatch.setattr(shared_memory, "_PAUSE_SECS", 0.05)
    calls, accept = [], socket.socket.accept

    def fail_at_first(listener):
        calls.append(None)
        if len(calls) < 4:
            raise OSError(errno.EMFILE, "Too many open files")
        return accept(listener)

    monkeypatch.setattr(socket.socket, "accept", fail_at_first)
    assert harness.join().ask(1, 2) == [1, 2]
    assert len(calls) == 4


@pytest.mark.parametrize("lacking", ["posix_fallocate", "send_fds"])
def test_a_shortage_of_memory_or_a_process_that_has_gone_leaves_nothing(harness, monkeypatch, lacking):
    def fail(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    player = harness.player()
    memory, before = player.welcome().memory, len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr({"posix_fallocate": os, "send_fds": socket}[lacking], lacking, fail)
    words = {"posix_fallocate": r"no 5184 bytes of shared memory left \(No space", "send_fds": "closed the"}
    with pytest.raises(NoMemoryError, match=words[lacking]):
        MemoryLink(memory, SPEC, 2, 1)
    monkeypatch.undo()
    wait_until(lambda: len(os.listdir("/proc/self/fd")) <= before, "the descriptors", DEADLINE_SECS)
    player.say(ready=pb.Ready(applied=[0]))  # It can send messages.
    player.send_zeros(0)
    assert player.answer() == [0, 0]


def test_a_process_of_too_many_groups_is_offered_none(open_harness, monkeypatch):
    monkeypatch.setattr(shared_memory, "MOST_GROUPS", 2)
    harness = open_harness()
    assert not harness.player(num_envs=3, num_groups=3).welcome().HasField("memory")
    assert harness.player(num_envs=2, num_groups=2).welcome().HasField("memory")


def test_the_socket_is_its_owners_and_goes_with_the_server(harness, tmp_path):
    address = harness.player().welcome().memory.address
    assert address == f"{tmp_path}/s.memory"
    mode = os.stat(address).st_mode
    assert stat.S_ISSOCK(mode) and stat.S_IMODE(mode) == 0o600
    harness.close()
    assert os.listdir(tmp_path) == []


def test_a_socket_that_a_killed_learner_left_is_replaced(tmp_path, open_harness):
    for name in ("s", "s.memory", "s.memory~"):
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(f"{tmp_path}/{name}")
    for name in ("s.lock", "s.memory.lock"):
        (tmp_path / name).touch()
    harness = open_harness()
    assert harness.join().ask(1, 2) == [1, 2]
    harness.close()
    assert os.listdir(tmp_path) == []


def test_the_socket_of_a_living_learner_is_left_alone(tmp_path, open_harness, capsys):
    with socket.socket(socket.AF_UNIX) as living:
        living.bind(f"{tmp_path}/s.memory")
        living.listen()
        player = open_harness().join()
        assert (player.link, player.ask(1, 2)) == (None, [1, 2])
        with socket.socket(socket.AF_UNIX) as peer:
            peer.connect(f"{tmp_path}/s.memory")
            assert living.accept()
    said = capsys.readouterr().err
    assert said.count("Actors on this machine cannot share memory with the learner") == 1


def test_at_a_tcp_address_the_socket_has_no_file(tmp_path, monkeypatch, open_harness):
    monkeypatch.chdir(tmp_path)
    harness = open_harness(address="127.0.0.1:0")
    player = harness.player()
    memory = player.get_ready().memory
    assert memory.address.startswith("@seed_rl/")
    assert player.ask(1, 2) == [1, 2]
    harness.close()
    with pytest.raises(NoMemoryError, match="the learner cannot be reached on this machine"):
        MemoryLink(memory, SPEC, 2, 1)
    assert os.listdir(tmp_path) == []


def test_a_set_closes_its_descriptors():
    importing = "from seed_rl.serving.shared_memory import make_wake_up_set"
    assert descriptors_after(importing, "wake_ups = make_wake_up_set()", "del wake_ups") == [2, 0]
