"""The batcher alone: plain threads with deadlines, no gRPC, no TensorFlow, no sleeps."""

import concurrent.futures
import itertools
import threading
import time

import pytest

from seed_rl.serving.batcher import Batcher
from tests.serving.bell import Bell

DEADLINE_SECS = 20.0
FOREVER = 1000.0  # A time-out that no test reaches.
SHORT = 0.05


def connected(batcher, number):
    return [batcher.connect() for _ in range(number)]


def test_full_batch_goes_without_the_clients_that_are_away(later):
    batcher = Batcher(3, FOREVER)
    a, b, _ = connected(batcher, 3)
    future = later(batcher.next_batch)
    batcher.submit(a, "a", 2)
    assert not future.done()
    batcher.submit(b, "b", 1)
    assert future.result(DEADLINE_SECS) == [(a, "a"), (b, "b")]


def test_batch_goes_when_every_connected_client_waits(later):
    batcher = Batcher(100, FOREVER)
    clients = connected(batcher, 4)
    future = later(batcher.next_batch)
    for client in reversed(clients):
        assert not future.done()
        batcher.submit(client, f"of {client}", 1)
    assert future.result(DEADLINE_SECS) == [(c, f"of {c}") for c in reversed(clients)]


def test_time_out_hands_over_what_there_is():
    batcher = Batcher(100, SHORT)
    a, b, _ = connected(batcher, 3)
    batcher.submit(a, "a", 1)
    batcher.submit(b, "b", 1)
    start = time.monotonic()
    assert batcher.next_batch() == [(a, "a"), (b, "b")]
    assert time.monotonic() - start > 0.6 * SHORT


def test_time_out_counts_from_the_oldest_request(later):
    batcher = Batcher(100, SHORT)
    a, _ = connected(batcher, 2)
    future = later(batcher.next_batch)  # It waits already when the request comes.
    batcher.submit(a, "a", 1)
    assert future.result(DEADLINE_SECS) == [(a, "a")]


def test_stalled_client_costs_one_time_out_and_is_waited_for_again_when_it_is_back(later):
    batcher = Batcher(100, SHORT)
    a, stalled = connected(batcher, 2)
    batcher.submit(a, 0, 1)
    assert batcher.next_batch() == [(a, 0)]
    batcher._timeout_secs = FOREVER  # From now on a time-out would fail the test.
    for step in range(1, 4):
        batcher.finish([a])
        batcher.submit(a, step, 1)
        assert later(batcher.next_batch).result(DEADLINE_SECS) == [(a, step)]
    # It is back: its request goes alone, because the other one is in a batch.
    batcher.submit(stalled, "back", 1)
    assert later(batcher.next_batch).result(DEADLINE_SECS) == [(stalled, "back")]
    batcher.finish([a, stalled])
    future = later(batcher.next_batch)
    batcher.submit(a, "with", 1)
    assert not future.done()
    batcher.submit(stalled, "company", 1)
    assert future.result(DEADLINE_SECS) == [(a, "with"), (stalled, "company")]


def test_batches_never_exceed_the_maximum_and_keep_the_order():
    batcher = Batcher(5, SHORT)
    sizes = [3, 3, 1, 5, 2, 2, 2, 4]
    clients = connected(batcher, len(sizes))
    for client, size in zip(clients, sizes, strict=True):
        batcher.submit(client, size, size)
    batches = []
    while sum(map(len, batches)) < len(sizes):
        batches.append(batcher.next_batch())
    assert [[size for _, size in batch] for batch in batches] == [[3], [3, 1], [5], [2, 2], [2], [4]]
    assert [client for batch in batches for client, _ in batch] == clients


def test_client_that_goes_while_its_request_is_pending_is_forgotten(later):
    batcher = Batcher(100, FOREVER)
    a, b, c = connected(batcher, 3)
    batcher.submit(a, "a", 60)
    batcher.submit(b, "b", 30)
    future = later(batcher.next_batch)
    batcher.disconnect(a)
    assert not future.done()
    batcher.submit(c, "c", 30)  # With a's 60 this would fill the batch; all that are left wait, too.
    assert future.result(DEADLINE_SECS) == [(b, "b"), (c, "c")]
    assert batcher._pending_size == 0


def test_client_that_goes_while_away_is_no_longer_waited_for(later):
    batcher = Batcher(100, FOREVER)
    a, away = connected(batcher, 2)
    batcher.submit(a, "a", 1)
    future = later(batcher.next_batch)
    assert not future.done()
    batcher.disconnect(away)
    assert future.result(DEADLINE_SECS) == [(a, "a")]


def test_client_that_goes_in_mid_batch_harms_nobody(later):
    batcher = Batcher(2, FOREVER)
    a, b = connected(batcher, 2)
    batcher.submit(a, "a", 1)
    batcher.submit(b, "b", 1)
    assert len(batcher.next_batch()) == 2
    batcher.disconnect(a)
    batcher.finish([a, b])
    batcher.submit(b, "again", 1)
    assert later(batcher.next_batch).result(DEADLINE_SECS) == [(b, "again")]
    with pytest.raises(RuntimeError, match="not connected"):
        batcher.submit(a, "ghost", 1)


def test_second_request_before_the_answer_is_an_error():
    batcher = Batcher(4, FOREVER)
    (a,) = connected(batcher, 1)
    batcher.submit(a, 1, 1)
    with pytest.raises(RuntimeError, match="already waiting"):
        batcher.submit(a, 2, 1)
    assert batcher.next_batch() == [(a, 1)]
    with pytest.raises(RuntimeError, match="already waiting"):
        batcher.submit(a, 3, 1)
    batcher.finish([a])
    batcher.submit(a, 4, 1)


def test_requests_larger_than_a_batch_are_refused():
    batcher = Batcher(4, FOREVER)
    (a,) = connected(batcher, 1)
    with pytest.raises(ValueError, match="5 environments exceeds the batch of 4"):
        batcher.submit(a, "too large", 5)
    batcher.submit(a, "fits", 4)
    assert batcher.next_batch() == [(a, "fits")]


def test_close_ends_every_wait_now_and_later(later):
    batcher = Batcher(4, FOREVER)
    a, _ = connected(batcher, 2)
    batcher.submit(a, "never answered", 1)
    futures = [later(batcher.next_batch) for _ in range(2)]
    batcher.close()
    assert [future.result(DEADLINE_SECS) for future in futures] == [None, None]
    assert batcher.next_batch() is None


def test_two_consumers_share_the_work():
    batcher = Batcher(1, FOREVER)
    clients = connected(batcher, 2)
    together = threading.Barrier(2)  # Both hold a batch at the same time, or the test fails.

    def consume():
        batch = batcher.next_batch()
        together.wait(DEADLINE_SECS)
        return batch

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(consume) for _ in range(2)]
        for client in clients:
            batcher.submit(client, client, 1)
        batches = [future.result(DEADLINE_SECS) for future in futures]
    assert sorted(batches) == [[(client, client)] for client in clients]


@pytest.mark.parametrize("has_bell", [False, True])
@pytest.mark.parametrize("num_consumers", [1, 2])
def test_nothing_is_lost_or_doubled_under_load(num_consumers, has_bell):
    """Clients of different sizes in threads of their own; every request comes back once, in order."""
    bell = Bell() if has_bell else None
    batcher, num_steps, sizes = Batcher(6, 0.002, bell), 200, [1, 2, 3, 4, 5]
    if bell:
        bell.batcher = batcher
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
            if bell and (size + step) % 2:
                bell.ring((client, (size, step), size))
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


def test_ids_are_never_given_twice():
    batcher = Batcher(1, FOREVER)
    ids = []
    for _ in itertools.repeat(None, 3):
        ids.append(batcher.connect())
        batcher.disconnect(ids[-1])
    assert len(set(ids)) == 3
