"""Ports that are held for processes which listen later."""

import contextlib
import socket
import sys

import pytest

from seed_rl.launch.ports import hold_addresses, hold_port
from seed_rl.serving.listener import Listener
from tests.ports import LAUNCH, free_ports

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
