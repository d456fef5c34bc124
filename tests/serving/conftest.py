"""Threads for the tests of the batcher; a server and its actors for the others."""

import concurrent.futures
import contextlib
import socket
import threading

import pytest

from seed_rl.wire.shared_memory import is_supported
from tests.serving.harness import DEADLINE_SECS, Harness

_NEEDS_LINUX = pytest.mark.skipif(not is_supported(), reason="needs Linux: no shared memory elsewhere")
WAYS = ["messages", "web", *(pytest.param(way, marks=_NEEDS_LINUX) for way in ("memory", "gateway"))]


@pytest.fixture
def open_harness(tmp_path):
    """Opens the test's harness: a way for its actors' steps, and limits that are not the default."""
    with contextlib.ExitStack() as stack:
        yield lambda way="memory", address=f"unix:{tmp_path}/s", **limits: Harness(
            address, stack, way, **limits
        )


@pytest.fixture(params=WAYS)
def harness(open_harness, request):
    """The harness; the test runs once for each way of the steps."""
    return open_harness(request.param)


@pytest.fixture
def connect():
    """Connects to a unix socket, and sends something there."""
    with contextlib.ExitStack() as stack:

        def start(address, said=b""):
            peer = stack.enter_context(socket.socket(socket.AF_UNIX))
            peer.settimeout(DEADLINE_SECS)
            peer.connect(address)
            if said:
                peer.sendall(said)
            return peer

        yield start


@pytest.fixture
def later():
    """Runs a function in a thread; returns a future, whose `result(DEADLINE_SECS)` waits."""
    threads = []

    def start(function, *args):
        future = concurrent.futures.Future()

        def run():
            try:
                future.set_result(function(*args))
            except BaseException as error:
                future.set_exception(error)

        threads.append(threading.Thread(target=run, daemon=True))
        threads[-1].start()
        return future

    yield start
    for thread in threads:
        thread.join(DEADLINE_SECS)
        assert not thread.is_alive()
