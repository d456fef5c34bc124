"""Wake-ups of the batcher's consumers: plain threads with deadlines, with and without wake-ups.

test_batcher_machine.py has what a batch consists of, and when it is due.
"""

import concurrent.futures
import contextlib
import queue
import threading

import pytest

from seed_rl.serving.batcher import Batcher

DEADLINE_SECS = 20.0
FOREVER = 1000.0  # A time-out that no test reaches.
SHORT = 0.05


class WakeUps:
    """Wake-ups that a test sends: the thread that waits for them then submits the requests itself."""

    def __init__(self):
        self.batcher = None
        self.waiting = []  # Those who have waited here, in order.
        self.here = threading.Semaphore(0)  # Released whenever somebody begins to wait.
        self._wakes = queue.SimpleQueue()

    def wait(self, timeout_secs):
        self.waiting.append(threading.get_ident())
        self.here.release()
        with contextlib.suppress(queue.Empty):
            self.batcher.submit_all(self._wakes.get(timeout=timeout_secs))

    def wake(self):
        self._wakes.put([])

    def send(self, *requests):
        self._wakes.put(requests)

    def wait_until_somebody_waits(self):
        assert self.here.acquire(timeout=DEADLINE_SECS)


def make(has_wake_ups, *sizes):
    """A batcher, with or without wake-ups."""
    wake_ups = WakeUps() if has_wake_ups else None
    batcher = Batcher(*sizes, wake_ups)
    if wake_ups:
        wake_ups.batcher = batcher
    return batcher


both_ways = pytest.mark.parametrize("has_wake_ups", [False, True], ids=["plain", "wake-ups"])
EVENTS = {
    "the last request of a batch": (lambda batcher, b, c: batcher.submit(b, "b", 1), ["a", "b"]),
    "no client away": (lambda batcher, b, c: (batcher.disconnect(b), batcher.disconnect(c)), ["a"]),
}


@both_ways
@pytest.mark.parametrize(("event", "requests"), EVENTS.values(), ids=EVENTS)
def test_what_makes_a_batch_due_wakes_the_consumer(later, has_wake_ups, event, requests):
    batcher = make(has_wake_ups, 3, FOREVER)
    a, b, c = (batcher.connect() for _ in range(3))
    future = later(batcher.next_batch)
    batcher.submit(a, "a", 2)
    assert not future.done()
    event(batcher, b, c)
    assert future.result(DEADLINE_SECS) == list(zip((a, b), requests, strict=False))


@both_ways
def test_close_wakes_all_consumers(later, has_wake_ups):
    batcher = make(has_wake_ups, 4, FOREVER)
    a, _ = batcher.connect(), batcher.connect()
    batcher.submit(a, "never answered", 1)
    futures = [later(batcher.next_batch) for _ in range(2)]
    batcher.close()
    assert [future.result(DEADLINE_SECS) for future in futures] == [None, None]


@both_ways
def test_two_consumers_share_the_work(later, has_wake_ups):
    batcher = make(has_wake_ups, 1, FOREVER)
    clients = [batcher.connect() for _ in range(2)]
    together = threading.Barrier(2)  # Both hold a batch at the same time, or the test fails.

    def consume():
        batch = batcher.next_batch()
        together.wait(DEADLINE_SECS)
        return batch

    futures = [later(consume) for _ in range(2)]
    for client in clients:
        batcher.submit(client, client, 1)
    assert sorted(future.result(DEADLINE_SECS) for future in futures) == [[(c, c)] for c in clients]


def test_one_consumer_at_a_time_waits_for_wake_ups_and_another_follows(later):
    batcher = make(True, 1, FOREVER)
    wake_ups = batcher.wake_ups
    a, b = batcher.connect(), batcher.connect()
    futures = [later(lambda: (batcher.next_batch(), threading.get_ident())) for _ in range(3)]
    wake_ups.wait_until_somebody_waits()
    assert not wake_ups.here.acquire(timeout=SHORT)
    wake_ups.send((a, "a", 1))
    wake_ups.wait_until_somebody_waits()
    wake_ups.send((b, "b", 1))
    wake_ups.wait_until_somebody_waits()
    batcher.close()
    results = dict(future.result(DEADLINE_SECS)[::-1] for future in futures)
    assert [results[thread] for thread in wake_ups.waiting] == [[(a, "a")], [(b, "b")], None]


@both_ways
@pytest.mark.parametrize("num_consumers", [1, 2])
def test_nothing_is_lost_or_doubled_under_load(num_consumers, has_wake_ups):
    """Clients of different sizes in threads of their own; every request comes back once, in order."""
    batcher, num_steps, sizes = make(has_wake_ups, 6, 0.002), 200, [1, 2, 3, 4, 5]
    answered = {size: threading.Semaphore(0) for size in sizes}
    seen = {size: [] for size in sizes}
    too_large = []

    def consume():
        while (batch := batcher.next_batch()) is not None:
            if sum(size for _, (size, _) in batch) > 6:
                too_large.append(batch)
            for _, (size, step) in batch:
                seen[size].append(step)
            batcher.finish([client for client, _ in batch])
            for _, (size, _) in batch:
                answered[size].release()

    def play(size):
        client = batcher.connect()
        for step in range(num_steps):
            if has_wake_ups and (size + step) % 2:
                batcher.wake_ups.send((client, (size, step), size))
            else:
                batcher.submit(client, (size, step), size)
            assert answered[size].acquire(timeout=DEADLINE_SECS)
        batcher.disconnect(client)

    with concurrent.futures.ThreadPoolExecutor(num_consumers + len(sizes)) as pool:
        consumers = [pool.submit(consume) for _ in range(num_consumers)]
        players = [pool.submit(play, size) for size in sizes]
        for future in players:
            future.result(DEADLINE_SECS)
        batcher.close()
        for future in consumers:
            future.result(DEADLINE_SECS)
    assert too_large == []
    assert all(steps == list(range(num_steps)) for steps in seen.values())
