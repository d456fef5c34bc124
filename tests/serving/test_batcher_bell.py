"""The batcher with a bell: who waits where, and what ends the wait."""

import threading

import pytest

from seed_rl.serving.batcher import Batcher
from tests.serving.bell import Bell
from tests.serving.harness import DEADLINE_SECS

FOREVER = 1000.0  # A time-out that no test reaches.
SHORT = 0.05


def connected(batcher, number):
    return [batcher.connect() for _ in range(number)]


@pytest.fixture
def with_bell():
    """A batcher with a bell."""

    def make(max_batch_size, timeout_secs):
        bell = Bell()
        bell.batcher = Batcher(max_batch_size, timeout_secs, bell)
        return bell.batcher, bell

    return make


def test_requests_come_through_the_bell_to_the_thread_that_waits_there(with_bell, later):
    batcher, bell = with_bell(10, FOREVER)
    a, b = connected(batcher, 2)
    future = later(lambda: (batcher.next_batch(), threading.get_ident()))
    bell.wait_until_somebody_waits()
    bell.ring((a, "a", 1), (b, "b", 1))
    assert future.result(DEADLINE_SECS) == ([(a, "a"), (b, "b")], bell.waiting[0])


def test_requests_of_other_threads_reach_the_one_at_the_bell(with_bell, later):
    batcher, bell = with_bell(10, FOREVER)
    a, b = connected(batcher, 2)
    future = later(batcher.next_batch)
    bell.wait_until_somebody_waits()
    batcher.submit(a, "a", 1)
    batcher.submit(b, "b", 1)
    assert future.result(DEADLINE_SECS) == [(a, "a"), (b, "b")]


def test_a_time_out_ends_the_wait_at_the_bell(with_bell, later):
    batcher, bell = with_bell(10, SHORT)
    a, _ = connected(batcher, 2)
    future = later(batcher.next_batch)
    bell.wait_until_somebody_waits()
    bell.ring((a, "a", 1))
    assert future.result(DEADLINE_SECS) == [(a, "a")]
    assert batcher.next_batch(SHORT) == []


def test_a_client_that_goes_wakes_the_thread_at_the_bell(with_bell, later):
    batcher, bell = with_bell(10, FOREVER)
    a, away = connected(batcher, 2)
    future = later(batcher.next_batch)
    bell.wait_until_somebody_waits()
    bell.ring((a, "a", 1))
    bell.wait_until_somebody_waits()  # It has got this request, and waits for the other one.
    batcher.disconnect(away)
    assert future.result(DEADLINE_SECS) == [(a, "a")]


def test_close_ends_waits_at_the_bell_and_beside_it(with_bell, later):
    batcher, bell = with_bell(10, FOREVER)
    futures = [later(batcher.next_batch) for _ in range(2)]
    bell.wait_until_somebody_waits()
    batcher.close()
    assert [future.result(DEADLINE_SECS) for future in futures] == [None, None]


def test_requests_through_the_bell_of_clients_that_have_gone_are_left_out(with_bell):
    batcher, bell = with_bell(10, FOREVER)
    a, gone = connected(batcher, 2)
    batcher.disconnect(gone)
    bell.ring((gone, "ghost", 4), (a, "a", 1))
    assert batcher.next_batch() == [(a, "a")]
    bell.ring((gone, "ghost", 4))
    assert batcher.next_batch(SHORT) == []
    assert batcher._pending_size == 0


def test_when_one_consumer_takes_a_batch_another_goes_to_the_bell(with_bell, later):
    batcher, bell = with_bell(1, FOREVER)
    a, b = connected(batcher, 2)
    together = threading.Barrier(2)  # Both hold a batch at the same time, or the test fails.

    def consume():
        batch = batcher.next_batch()
        together.wait(DEADLINE_SECS)
        return batch

    futures = [later(consume) for _ in range(2)]
    bell.wait_until_somebody_waits()
    bell.ring((a, "a", 1))
    bell.wait_until_somebody_waits()
    bell.ring((b, "b", 1))
    assert sorted(future.result(DEADLINE_SECS) for future in futures) == [[(a, "a")], [(b, "b")]]
    assert len(set(bell.waiting)) == 2


def test_only_one_consumer_waits_at_the_bell_at_a_time(with_bell, later):
    batcher, bell = with_bell(1, FOREVER)
    futures = [later(batcher.next_batch) for _ in range(3)]
    bell.wait_until_somebody_waits()
    assert not bell.here.acquire(timeout=SHORT)
    batcher.close()
    for future in futures:
        future.result(DEADLINE_SECS)
