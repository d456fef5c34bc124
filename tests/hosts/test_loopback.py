"""A port that TensorFlow opens on all interfaces is reached through the loopback device only."""

import socket
import sys

import pytest

from seed_rl.hosts import reductions
from tests.ports import is_reached, outer_addresses

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux chooses among sockets of a port")


def open_on_all_interfaces(port):
    """A socket as TensorFlow's server opens it."""
    server = reductions._wildcard_socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    server.bind(("", port))
    server.listen()
    return server


@pytest.fixture
def kept(monkeypatch):
    monkeypatch.setenv("TF_GRPC_REUSE_PORT", "")  # So that it is put back.
    monkeypatch.setenv("NCCL_SOCKET_IFNAME", "")
    with reductions.keep_to_loopback(0) as held:
        yield held


def test_only_loopback_addresses_reach_the_server(kept):
    port = kept.getsockname()[1]
    with open_on_all_interfaces(port) as first, open_on_all_interfaces(port):  # gRPC may open several.
        first.settimeout(0.3)
        loopbacks = ["127.0.0.1", "127.8.9.10", *(["::1"] if kept.family == socket.AF_INET6 else [])]
        assert [is_reached(host, port) for host in loopbacks] == [True] * len(loopbacks)
        assert outer_addresses(), "this machine has no address that the test could try"
        assert [host for host in outer_addresses() if is_reached(host, port)] == []
    # Nor is any accepted before the server and after it.
    assert [host for host in ("127.0.0.1", *outer_addresses()) if is_reached(host, port)] == []


def test_a_port_that_another_process_has_is_an_error(kept):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        with pytest.raises(OSError, match="in use"):
            reductions.keep_to_loopback(other.getsockname()[1])
