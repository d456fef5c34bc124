"""Who gets memory on the board, and what the door does about everybody else."""

import contextlib
import errno
import os
import selectors
import socket
import stat

import pytest

from seed_rl.serving import board_door
from seed_rl.serving.batcher import Batcher
from seed_rl.serving.doorbell import make_bell
from seed_rl.serving.server import InferenceServer
from seed_rl.wire.board import MAGIC, REQUEST, is_supported, part_layout, socket_address
from seed_rl.wire.board_link import BoardLink, NoBoardError
from tests.serving.harness import DEADLINE_SECS, NUM_ENVS, SPEC, ask, of_catch
from tests.serving.on_board import OnBoard
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(not is_supported(), reason="needs Linux: no board elsewhere")


def describe(harness):
    return harness.connect().check(of_catch(), DEADLINE_SECS)


@pytest.fixture
def knock():
    """Connects to a board's socket, and says something there."""
    with contextlib.ExitStack() as stack:

        def connect(offer, said=b""):
            peer = stack.enter_context(socket.socket(socket.AF_UNIX))
            peer.settimeout(DEADLINE_SECS)
            peer.connect(socket_address(offer.address))
            peer.sendall(said)
            return peer

        yield connect


def is_closed(peer):
    """Waits for the end of the connection, before which nothing came."""
    with contextlib.suppress(ConnectionResetError):
        return peer.recv(100) == b""
    return True


def replace_accept(harness, monkeypatch, accept):
    """Lets `accept(listener)` accept the connections to the board's socket."""
    listener = harness.server._door._listener

    class Listener:
        def __getattr__(self, name):
            return getattr(listener, name)

        def accept(self):
            return accept(listener)

    monkeypatch.setattr(harness.server._door, "_listener", Listener())


WRONG = {
    "magic": lambda secret: REQUEST.pack(b"SEEDRL00", secret, 64),
    "secret": lambda secret: REQUEST.pack(MAGIC, bytes(16), 64),
    "neither": lambda secret: b"GET / HTTP/1.1\r\nHost: learner.local\r\n\r\n",
}


@pytest.mark.parametrize("make", WRONG.values(), ids=WRONG)
def test_who_does_not_know_the_secret_is_told_nothing(board, knock, make):
    offer = describe(board).board
    assert is_closed(knock(offer, make(offer.secret)))
    assert OnBoard(board, (0, 2)).ask(1, 2) == [1, 2]


@pytest.mark.parametrize("num_bytes", [0, NUM_ENVS * part_layout(SPEC, 1).size + 1, 2**64 - 1])
def test_more_memory_than_the_run_needs_is_refused(board, knock, num_bytes):
    offer = describe(board).board
    largest = NUM_ENVS * part_layout(SPEC, 1).size
    answer = knock(offer, REQUEST.pack(MAGIC, offer.secret, num_bytes)).recv(1000)
    sentence = f"An actor can have 1 to {largest} bytes of shared memory, not {num_bytes}."
    assert answer[16:].decode() == sentence
    assert board.server._board.num_connections == 0


def test_all_environments_in_one_process_or_each_in_its_own_have_room(board):
    together = OnBoard(board, (0, 4), (4, 4))
    assert together.ask(1, 2, 3, 4) == [1, 2, 3, 4]
    together.link.close()
    apart = [OnBoard(board, (env, 1), run_id=env) for env in range(NUM_ENVS)]
    assert [actor.ask(env) for env, actor in enumerate(apart)] == [[env] for env in range(NUM_ENVS)]


def test_another_users_process_is_refused(board, monkeypatch):
    other = board_door._CREDENTIALS.pack(os.getpid(), os.geteuid() + 1, os.getegid())

    class OfOtherUser(socket.socket):
        def getsockopt(self, *_):
            return other

    def accept_from_other_user(listener):
        link, address = listener.accept()
        return OfOtherUser(fileno=link.detach()), address

    offer = describe(board).board
    replace_accept(board, monkeypatch, accept_from_other_user)
    with pytest.raises(NoBoardError) as caught:
        BoardLink(offer, SPEC, [2])
    users = f"The actor runs as user {os.geteuid() + 1} and the learner as {os.geteuid()}"
    assert str(caught.value) == f"{users}; run both as the same user"


def test_too_many_processes_are_refused(open_board):
    harness = open_board(spare_streams=-NUM_ENVS + 1)
    first = OnBoard(harness, (0, 2))
    with pytest.raises(NoBoardError, match="There are 1 processes on the board already"):
        OnBoard(harness, (2, 2), run_id=2)
    first.link.close()
    wait_until(lambda: harness.server._board.num_connections == 0, "the first to leave", DEADLINE_SECS)
    assert OnBoard(harness, (2, 2), run_id=2).ask(1, 2) == [1, 2]


def test_a_peer_that_says_nothing_is_sent_away(open_board, knock):
    harness = open_board(handshake_secs=0.1)
    offer = describe(harness).board
    assert is_closed(knock(offer))
    assert is_closed(knock(offer, MAGIC))
    assert OnBoard(harness, (0, 2)).ask(1, 2) == [1, 2]


def test_of_too_many_silent_peers_the_oldest_goes(open_board, knock):
    harness = open_board(handshake_secs=3600.0, spare_streams=1)
    offer = describe(harness).board
    peers = [knock(offer) for _ in range(4 * NUM_ENVS)]
    assert all(is_closed(peer) for peer in peers[: 3 * NUM_ENVS - 1])
    assert OnBoard(harness, (0, 2)).ask(1, 2) == [1, 2]
    assert len(harness.server._door._welcoming) <= NUM_ENVS + 1
    for peer in peers[-NUM_ENVS:]:
        peer.setblocking(False)
        with pytest.raises(BlockingIOError):
            peer.recv(1)


def test_without_descriptors_the_door_waits_a_moment(board, monkeypatch):
    monkeypatch.setattr(board_door, "_PAUSE_SECS", 0.05)
    offer, calls = describe(board).board, []

    def fail_at_first(listener):
        calls.append(None)
        if len(calls) < 4:
            raise OSError(errno.EMFILE, "Too many open files")
        return listener.accept()

    replace_accept(board, monkeypatch, fail_at_first)
    turns = []
    select = selectors.EpollSelector.select
    monkeypatch.setattr(
        selectors.EpollSelector, "select", lambda *args: (turns.append(None), select(*args))[1]
    )
    BoardLink(offer, SPEC, [2]).close()
    assert len(calls) == 4
    assert len(turns) < 100  # It does not spin.


def test_the_socket_is_its_owners_and_goes_with_the_server(board, tmp_path):
    offer = describe(board).board
    assert offer.address == f"{tmp_path}/socket.board"
    mode = os.stat(offer.address).st_mode
    assert stat.S_ISSOCK(mode) and stat.S_IMODE(mode) == 0o600
    board.close()
    assert os.listdir(tmp_path) == []


def test_a_socket_that_a_killed_learner_left_is_replaced(tmp_path, open_board):
    for name in ("socket", "socket.board", "socket.board~"):
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(f"{tmp_path}/{name}")
    (tmp_path / "socket.board.lock").touch()
    harness = open_board()
    assert OnBoard(harness, (0, 2)).ask(1, 2) == [1, 2]
    harness.close()
    assert os.listdir(tmp_path) == []


def test_the_socket_of_a_living_learner_is_left_alone(tmp_path, open_board, capsys):
    with socket.socket(socket.AF_UNIX) as living:
        living.bind(f"{tmp_path}/socket.board")
        living.listen()
        harness = open_board()
        assert not describe(harness).HasField("board")
        assert ask(harness.join(), 1, 2) == [1, 2]
        with socket.socket(socket.AF_UNIX) as peer:
            peer.connect(f"{tmp_path}/socket.board")
            assert living.accept()
    said = capsys.readouterr().err
    assert said.count("Actors on this machine cannot share memory with the learner") == 1
    assert "another learner listens there" in said


def test_a_path_that_is_too_long_for_a_second_socket_is_one_warning(tmp_path, open_board, capsys):
    room = 107 - len(f"{tmp_path}/~")
    if room < 1:
        pytest.skip("the temporary directory's own path is too long")
    harness = open_board(address=f"unix:{tmp_path}/{'s' * room}")
    assert not describe(harness).HasField("board")
    stream = harness.join()
    assert ask(stream, 1, 2) == [1, 2]
    stream.close()
    assert capsys.readouterr().err.count("cannot share memory with the learner") == 1
    harness.close()
    assert os.listdir(tmp_path) == []


def test_a_shortage_of_memory_is_a_sentence(board, monkeypatch):
    def fail(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", fail)
    offer = describe(board).board
    with pytest.raises(NoBoardError, match=r"There are no 64 bytes of shared memory left \(No space left"):
        BoardLink(offer, SPEC, [2])
    assert board.server._board.num_connections == 0
    monkeypatch.undo()
    assert OnBoard(board, (0, 2)).ask(1, 2) == [1, 2]


def test_an_actor_that_is_gone_when_its_memory_comes_leaves_nothing(board, monkeypatch, knock):
    def fail(*_):
        raise BrokenPipeError

    monkeypatch.setattr(socket, "send_fds", fail)
    offer = describe(board).board
    assert is_closed(knock(offer, REQUEST.pack(MAGIC, offer.secret, 64)))
    assert board.server._board.num_connections == 0


def test_at_a_tcp_address_the_board_has_no_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    server = InferenceServer("localhost:0", of_catch(), 1, [Batcher(1, 1.0, make_bell())], 1)
    offer = server._door.description
    assert offer.address.startswith("@seed_rl/")
    BoardLink(offer, SPEC, [1]).close()
    server.stop()
    with pytest.raises(NoBoardError, match="the learner cannot be reached on this machine"):
        BoardLink(offer, SPEC, [1])
    assert os.listdir(tmp_path) == []


def test_an_actor_says_why_it_has_no_memory(tmp_path):
    with pytest.raises(NoBoardError, match="the learner offers none"):
        BoardLink(None, SPEC, [1])
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{tmp_path}/s")
        offer = type("Offer", (), {"address": f"{tmp_path}/s", "secret": bytes(16)})
        with pytest.raises(NoBoardError, match="Connection refused"):
            BoardLink(offer, SPEC, [1])
