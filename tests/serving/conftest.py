"""Threads for the tests of the batcher; the harness, for those of the server and of the board."""

import concurrent.futures
import contextlib
import threading

import pytest

from seed_rl.serving.doorbell import make_bell
from tests.serving.harness import DEADLINE_SECS, Harness


@pytest.fixture
def open_harness(tmp_path):
    """Opens the test's harness, with limits that are not the default."""
    with contextlib.ExitStack() as servers, contextlib.ExitStack() as clients:

        def start(address=f"unix:{tmp_path}/socket", bell=None, **limits):
            harness = Harness(address, clients, bell, **limits)
            servers.callback(harness.close)
            return harness

        yield start


@pytest.fixture
def harness(open_harness):
    return open_harness()


@pytest.fixture
def open_board(open_harness):
    """Opens the test's harness with a board."""
    return lambda **options: open_harness(bell=make_bell(), **options)


@pytest.fixture
def board(open_board):
    return open_board()


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
