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


@pytest.fixture(params=[False, True], ids=["plain", "wake-ups"])
def make(request):
    """Makes a batcher, with or without wake-ups."""

    def make_batcher(max_batch_size, timeout_secs):
        wake_ups = WakeUps() if request.param else None
        batcher = Batcher(max_batch_size, timeout_secs, wake_ups)
        if wake_ups:
            wake_ups.batcher = batcher
        return batcher

    return make_batcher


def test_the_last_request_of_a_batch_wakes_the_consumer(make, later):
    batcher = make(3, FOREVER)
    a, b, _ = (batcher.connect() for _ in range(3))
    future = later(batcher.next_batch)
    batcher.submit(a, "a", 2)
    assert not future.done()
    batcher.submit(b, "b", 1)
    assert future.result(DEADLINE_SECS) == [(a, "a"), (b, "b")]


def test_a_client_that_goes_wakes_the_consumer(make, later):
    batcher = make(100, FOREVER)
    a, away = batcher.connect(), batcher.connect()
    batcher.submit(a, "a", 1)
    future = later(batcher.next_batch)
    assert not future.done()
    batcher.disconnect(away)
    assert future.result(DEADLINE_SECS) == [(a, "a")]


def test_close_wakes_all_consumers(make, later):
    batcher = make(4, FOREVER)
    a, _ = batcher.connect(), batcher.connect()
    batcher.submit(a, "never answered", 1)
    futures = [later(batcher.next_batch) for _ in range(2)]
    batcher.close()
    assert [future.result(DEADLINE_SECS) for future in futures] == [None, None]


def test_two_consumers_share_the_work(make, later):
    batcher = make(1, FOREVER)
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
    wake_ups = WakeUps()
    batcher = wake_ups.batcher = Batcher(1, FOREVER, wake_ups)
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


@pytest.mark.parametrize("has_wake_ups", [False, True])
@pytest.mark.parametrize("num_consumers", [1, 2])
def test_nothing_is_lost_or_doubled_under_load(num_consumers, has_wake_ups):
    """Clients of different sizes in threads of their own; every request comes back once, in order."""
    wake_ups = WakeUps() if has_wake_ups else None
    batcher, num_steps, sizes = Batcher(6, 0.002, wake_ups), 200, [1, 2, 3, 4, 5]
    if wake_ups:
        wake_ups.batcher = batcher
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
            if wake_ups and (size + step) % 2:
                wake_ups.send((client, (size, step), size))
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
