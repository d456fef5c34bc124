"""The queue, and rollouts; tests/inference/test_rollouts.py has the waits for a rollout, and its contents."""

import numpy as np
import pytest

from seed_rl.experience.base import Batch, ClosedError, Setup, UnrollConfig
from seed_rl.experience.experience_config import FifoConfig
from seed_rl.experience.fifo import Fifo, Rollouts
from seed_rl.types import Sample
from tests.experience.slow_store import append, step
from tests.threads import Thread
from tests.waiting import wait_until

SETUP = Setup(3, UnrollConfig(2, stagger=False), batch_size=2)


def batch(*numbers):
    return Batch(None, np.array(numbers), None)


def numbers(batch):
    return batch.policy_version.tolist()


def test_several_passes_train_on_each_so_often_and_new_ones_have_their_room():
    fifo = Fifo(SETUP, capacity=4, passes=2)
    fifo.add(4, [batch(0, 1), batch(2, 3)])
    assert [numbers(fifo.sample()) for _ in range(2)] == [[0, 1], [2, 3]]
    assert fifo.figures() == {"queue_depth": 0.0}
    fifo.add(4, [batch(4, 5), batch(6, 7)])
    fifo.hand_over([0])  # Would block if the first four took up room.
    batches = [numbers(fifo.sample()) for _ in range(6)]
    assert batches == [[0, 1], [2, 3], [4, 5], [6, 7], [4, 5], [6, 7]]
    assert not fifo.batch_ready()


def test_inference_waits_for_room():
    fifo = Fifo(SETUP, capacity=3)
    fifo.add(3, [batch(0, 1)])
    fifo.hand_over([0])
    fifo.add(3, [batch(2, 3), batch(4, 5)])
    thread = Thread(fifo.hand_over, [0])
    wait_until(thread.is_waiting, "a full queue")
    assert fifo.figures() == {"queue_depth": 3.0}
    fifo.sample()
    wait_until(thread.is_waiting, "a queue that is still full")
    fifo.sample()
    assert thread.finished()
    assert fifo.figures() == {"queue_depth": 2.0}


def test_sample_waits_for_a_batch():
    fifo, got = Fifo(SETUP), []
    thread = Thread(lambda: got.append(numbers(fifo.sample())))
    fifo.add(1, [])
    wait_until(thread.is_waiting, "a sample that waits")
    assert got == []
    fifo.add(1, [batch(0, 1)])
    assert thread.finished()
    assert got == [[0, 1]]


def test_close_wakes_everybody_now_and_later():
    empty, full = Fifo(SETUP), Fifo(SETUP)
    full.add(3, [batch(0, 1)])
    threads = [Thread(empty.sample) for _ in range(2)] + [Thread(full.hand_over, [0]) for _ in range(2)]
    empty.close()
    full.close()
    for thread in threads:
        assert thread.finished()
        assert isinstance(thread.error, ClosedError)
    with pytest.raises(ClosedError):
        full.sample()
    with pytest.raises(ClosedError):
        empty.hand_over([0])


def test_capacity_below_a_batch_is_refused():
    with pytest.raises(ValueError, match="--queue_capacity=1 is less than --batch_size=2"):
        FifoConfig(queue_capacity=1).make(SETUP)


def test_capacity_is_one_batch_unless_given():
    fifo = FifoConfig().make(SETUP)
    store = fifo.store

    def play():
        for time in range(3):
            store.hand_over(append(store, range(3), [time] * 3))

    thread = Thread(play)
    wait_until(lambda: fifo.figures() == {"queue_depth": 2.0} and thread.is_waiting(), "a full queue")
    fifo.sample()
    assert thread.finished()


# (limit, updates before, versions at the first step of each batch's two unrolls, passes,
#  the weights with which they are trained on and their versions, unrolls that are dropped).
AGES = {
    "all are fresh": (2, 4, [(2, 3)], 1, [([1, 1], [2, 3])], 0),
    "one is too old": (2, 4, [(1, 2)], 1, [([0, 2], [2])], 1),
    "none is fresh": (2, 4, [(1, 0)], 1, [], 2),
    "what waits grows older": (1, 0, [(0, 0), (0, 0), (0, 1), (2, 2)], 1, [
        ([1, 1], [0, 0]), ([1, 1], [0, 0]), ([0, 2], [1]), ([1, 1], [2, 2])], 1),
    "a second pass is later": (0, 3, [(3, 3), (3, 4)], 2, [([1, 1], [3, 3]), ([0, 2], [4])], 5),
    "a dropped batch is no update": (0, 3, [(1, 2), (3, 3)], 1, [([1, 1], [3, 3])], 2),
    "a limit of none": (None, 9, [(0, 0)], 1, [([1, 1], [0, 0])], None),
}  # fmt: skip


@pytest.mark.parametrize(
    ("limit", "updates", "versions", "passes", "expected", "dropped"), AGES.values(), ids=AGES
)
def test_unrolls_that_are_too_old_are_dropped(limit, updates, versions, passes, expected, dropped):
    setup = SETUP._replace(updates=updates)
    fifo = FifoConfig(queue_capacity=20, passes=passes, max_policy_lag=limit).make(setup)
    sample = Sample(None, None, None, (), np.ones(2, np.float32))
    fifo.add(
        2 * len(versions),
        [Batch(sample, np.stack([first, (9, 9), (9, 9)]), None) for first in map(np.array, versions)],
    )
    trained = []
    while fifo.batch_ready():
        batch = fifo.sample()
        trained.append((batch.sample.weight.tolist(), batch.policy_version[0].tolist()))
    assert trained == expected
    figures = fifo.figures()
    assert figures.get("dropped_unrolls") == dropped
    assert figures["queue_depth"] == 0
    assert fifo.figures().get("dropped_unrolls", 0) == 0


def test_the_first_step_after_the_burn_in_counts():
    fifo = Fifo(Setup(3, UnrollConfig(2, burn_in=1), batch_size=2, updates=5), max_policy_lag=1)
    versions = np.array([(0, 0), (4, 4), (5, 5), (5, 5)])
    fifo.add(2, [Batch(None, versions, None)])
    np.testing.assert_array_equal(fifo.sample().policy_version, versions)


def test_dropped_unrolls_make_room():
    fifo = Fifo(SETUP._replace(updates=9), max_policy_lag=0)
    fifo.add(4, [batch((0, 0), (0, 0), (0, 0)), batch((0, 0), (0, 0), (0, 0))])
    thread = Thread(fifo.hand_over, [0])
    wait_until(thread.is_waiting, "a full queue")
    assert not fifo.batch_ready()
    assert thread.finished()


def rollouts(batch_size, is_whole=False, num_served=None):
    return Rollouts(Setup(4, UnrollConfig(3), batch_size, num_served=num_served), is_whole)


@pytest.mark.parametrize(
    ("batch_size", "is_whole", "words"),
    [
        (3, False, "--batch_size=3 does not divide the 4 unrolls .*: 1, 2, 4"),
        (2, True, "--batch_size=2 must be 4"),
    ],
)
def test_minibatches_must_divide_the_rollout(batch_size, is_whole, words):
    with pytest.raises(ValueError, match=words):
        rollouts(batch_size, is_whole)
    for fits in (4,) if is_whole else (1, 2, 4):
        rollouts(fits, is_whole)


def test_a_host_expects_only_the_environments_that_it_serves():
    found, env_ids = rollouts(2, num_served=2), np.array([2, 3])
    for time in range(3):
        assert not found.closing(env_ids).any() and not found.batch_ready()
        append(found, env_ids, 100 * env_ids + time)
    assert found.closing(env_ids).any()
    assert found.end_unrolls(env_ids, step(100 * env_ids + 3)[1]) == [2, 3]
    assert found.sample().sample.env.reward[0].tolist() == [200, 300]
    assert found.figures() == {"rollout_unrolls": 2.0}
    found.trained()
    assert found.figures() == {"rollout_unrolls": 0.0}
