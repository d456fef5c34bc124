"""Threads that share the work of others: the results of one thread, in order, and nothing left behind."""

import os
import threading

import pytest

from seed_rl.experience.thread_pool import Helpers, default_threads
from tests.threads import Thread
from tests.waiting import DEADLINE_SECS, wait_until

NAME = "helpers under test"


@pytest.fixture
def make():
    """Makes helpers, and checks that their threads end with them."""
    made = []

    def make(threads):
        made.append(Helpers(threads, NAME))
        return made[-1]

    yield make
    for helpers in made:
        helpers.close()
    assert running() == []


def running():
    return [thread for thread in threading.enumerate() if thread.name.startswith(NAME)]


def results(helpers, function, items):
    with helpers.sharing(function, items) as found:
        return list(found)


class Gate:
    """A function that lets each caller pass only when the gate is open, and records the callers."""

    def __init__(self):
        self.open, self.threads = threading.Event(), {}

    def __call__(self, item):
        self.threads[item] = threading.current_thread()
        assert self.open.wait(DEADLINE_SECS)
        return -item


@pytest.mark.parametrize("threads", [0, 1, 3])
@pytest.mark.parametrize("count", [0, 1, 2, 100])
def test_results_come_in_order(make, threads, count):
    helpers = make(threads)
    for _ in range(20):
        assert results(helpers, lambda item: item**2, range(count)) == [item**2 for item in range(count)]


def test_all_threads_and_the_caller_work_at_once(make):
    """They would wait for one another in vain if one of them did not."""
    barrier = threading.Barrier(4)
    results(make(3), lambda item: barrier.wait(DEADLINE_SECS), range(4))


def test_helpers_work_ahead_of_a_caller_that_is_busy(make):
    done = []
    with make(1).sharing(done.append, range(5)):
        wait_until(lambda: len(done) == 5, "the helper to do everything")
    assert done == list(range(5))


def test_busy_helpers_keep_nobody_waiting(make):
    helpers, gate = make(1), Gate()
    other = Thread(results, helpers, gate, range(2))
    wait_until(lambda: len(gate.threads) == 2, "the helper and the other caller to be busy")
    assert results(helpers, lambda item: -item, range(50)) == [-item for item in range(50)]
    gate.open.set()
    assert other.finished()
    assert other.error is None


@pytest.mark.parametrize("threads", [0, 1, 3])
def test_the_first_error_in_order_is_raised_where_the_result_would_be(make, threads):
    helpers, found = make(threads), []

    def fail(item):
        if item in (7, 20):
            raise OSError(f"item {item}")
        return item

    with pytest.raises(OSError, match="item 7"), helpers.sharing(fail, range(30)) as items:
        found.extend(items)
    assert found == list(range(7))
    assert results(helpers, fail, range(5)) == list(range(5))  # The threads are still there.


def test_an_error_in_a_helper_reaches_the_caller(make):
    def fail(item):
        if threading.current_thread().name.startswith(NAME):
            raise OSError("in a helper")
        assert failed.wait(DEADLINE_SECS)

    failed = threading.Event()
    with pytest.raises(OSError, match="in a helper"), make(1).sharing(fail, range(2)) as found:
        wait_until(running, "the helper to start")
        failed.set()
        list(found)


def test_nobody_works_on_anything_when_the_context_has_ended(make):
    helpers, gate, left = make(2), Gate(), threading.Event()

    def leave():
        with helpers.sharing(gate, range(100)):
            wait_until(lambda: len(gate.threads) == 2, "both helpers to be busy")
            left.set()
            raise InterruptedError

    leaving = Thread(leave)
    assert left.wait(DEADLINE_SECS)
    wait_until(leaving.is_waiting, "the caller to wait for the helpers")
    assert not gate.threads.keys() - {0, 1}
    gate.open.set()
    assert leaving.finished()
    assert isinstance(leaving.error, InterruptedError)
    assert gate.threads.keys() == {0, 1}


def test_close_waits_for_work_that_has_begun_and_the_caller_does_the_rest(make):
    helpers, gate = make(1), Gate()
    caller = Thread(results, helpers, gate, range(2))
    wait_until(lambda: len(gate.threads) == 2, "the helper and the caller to be busy")
    closing = Thread(helpers.close)
    assert running() != []
    gate.open.set()
    assert closing.finished()
    assert running() == []
    assert caller.finished()
    assert caller.error is None
    assert results(helpers, lambda item: item, range(9)) == list(range(9))
    helpers.close()


@pytest.mark.parametrize(("cores", "threads"), [(1, 0), (2, 1), (5, 4), (64, 4)])
def test_the_default_leaves_a_core_alone(monkeypatch, cores, threads):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(cores)), raising=False)
    assert default_threads() == threads
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    assert default_threads() == threads
