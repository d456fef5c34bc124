"""A learner's socket stays its own for as long as it listens, and no longer."""

import contextlib
import socket
import sys
import threading

import pytest

from seed_rl.serving.batcher import Batcher
from seed_rl.serving.connections import Connections
from seed_rl.serving.listener import AddressError, Listener
from seed_rl.serving.server import InferenceServer
from seed_rl.serving.sockets import hold_addresses, hold_port
from tests.ports import LAUNCH, free_ports
from tests.serving.harness import CATCH, DEADLINE_SECS, Player


def serve(address):
    return InferenceServer(address, Connections(CATCH, 2, [Batcher(2, 1.0)], 2))


def answers(address):
    with contextlib.closing(Player(address)) as player:
        return player.welcome().suite == "catch"


def listen(path):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    return listener


@pytest.fixture
def addresses(tmp_path):
    abstract = f"unix-abstract:{tmp_path.name}-{id(tmp_path)}"
    return {"path": f"unix:{tmp_path}/s", "uri": f"unix://{tmp_path}/s", "abstract": abstract}


@pytest.mark.parametrize("kind", ["path", "uri", "abstract"])
def test_a_second_learner_is_refused_and_the_first_goes_on(tmp_path, addresses, kind):
    address = addresses[kind]
    first = serve(address)
    words = "" if kind == "abstract" else "another learner listens there; .* another --server_address"
    for _ in range(2):
        with pytest.raises(AddressError, match=f"Cannot listen on --server_address={address}: .*{words}"):
            serve(address)
        assert answers(address)
    first.stop()
    assert list(tmp_path.iterdir()) == []
    second = serve(address)
    assert answers(address)
    second.stop()


def test_port_0_is_a_free_port_and_a_used_one_is_refused():
    server = serve("localhost:0")
    assert server.port > 0
    with pytest.raises(ValueError, match=f"Cannot listen on --server_address=localhost:{server.port}"):
        serve(f"localhost:{server.port}")
    server.stop()
    server.stop()  # A second stop does nothing.


def test_of_many_that_start_at_once_one_listens(addresses, later):
    address, together = addresses["path"], threading.Barrier(8)

    def start():
        together.wait(DEADLINE_SECS)
        return serve(address)

    started = [later(start) for _ in range(8)]
    errors = [future.exception(DEADLINE_SECS) for future in started]
    (first,) = [future.result() for future in started if future.exception() is None]
    assert [type(error) for error in errors if error] == [AddressError] * 7
    assert answers(address)
    first.stop()


def test_a_listener_that_knows_of_no_lock_keeps_its_socket(tmp_path, addresses):
    with listen(tmp_path / "s") as listener:
        with pytest.raises(AddressError, match="another learner listens there"):
            serve(addresses["path"])
        listener.accept()[0].close()  # The question whether anybody is there.
        with socket.socket(socket.AF_UNIX) as peer:
            peer.connect(str(tmp_path / "s"))
    assert [path.name for path in tmp_path.iterdir()] == ["s"]


def test_a_file_that_is_no_socket_is_kept(tmp_path):
    (tmp_path / "file").write_text("precious")
    with pytest.raises(AddressError, match="exists and is not a socket"):
        serve(f"unix:{tmp_path}/file")
    assert (tmp_path / "file").read_text() == "precious"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_learner_that_stops_removes_no_socket_but_its_own(tmp_path, addresses):
    server = serve(addresses["path"])
    (tmp_path / "s").unlink()
    with listen(tmp_path / "s"):
        server.stop()
        with socket.socket(socket.AF_UNIX) as peer:
            peer.connect(str(tmp_path / "s"))
    assert [path.name for path in tmp_path.iterdir()] == ["s"]


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux: ports are held only there")


@pytest.fixture
def held():
    with contextlib.ExitStack() as stack:
        yield stack.enter_context


def free_port():
    return free_ports(1, LAUNCH)[0]


def test_a_held_port_is_kept_from_others_but_not_from_those_it_is_for(held):
    port = free_port()
    held(hold_port("127.0.0.1", port, reuse=False))
    assert hold_port("127.0.0.1", port, reuse=False) is None
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", port))
    for _ in range(2):  # A gateway that starts again.
        Listener(f"127.0.0.1:{port}", 1000, ()).stop()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0.0.0.0", "[::]"])
def test_gateways_can_listen_on_addresses_that_are_held(held, host):
    address = f"{host}:{free_port()}"
    held(hold_addresses([address]))
    listener = Listener(address, 1000, ())
    with pytest.raises(ValueError, match=r", which is a gateway's; give another") as caught:
        hold_addresses([address])
    assert address in str(caught.value)
    listener.stop()


def test_a_port_that_is_taken_lets_go_of_the_others():
    free = free_port()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ValueError, match=f"Cannot listen on 127.0.0.1:{port}, "):
            hold_addresses([f"127.0.0.1:{free}", f"127.0.0.1:{port}"])
    hold_port("127.0.0.1", free, reuse=False).close()


def test_sockets_of_files_are_left_to_who_listens(held):
    held(hold_addresses(["unix:/tmp/s.gateway0", "unix-abstract:x"]))
