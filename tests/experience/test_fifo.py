import numpy as np
import pytest

from seed_rl.experience.base import Batch, ClosedError, Setup, UnrollConfig
from seed_rl.experience.config import FifoConfig
from seed_rl.experience.fifo import Fifo
from tests.experience.slow_store import append
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
    fifo.wait_for_room()  # Would block if the first four took up room.
    batches = [numbers(fifo.sample()) for _ in range(6)]
    assert batches == [[0, 1], [2, 3], [4, 5], [6, 7], [4, 5], [6, 7]]
    assert not fifo.batch_ready()


def test_inference_waits_for_room():
    fifo = Fifo(SETUP, capacity=3)
    fifo.add(3, [batch(0, 1)])
    fifo.wait_for_room()
    fifo.add(3, [batch(2, 3), batch(4, 5)])
    thread = Thread(fifo.wait_for_room)
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
    threads = [
        Thread(empty.sample),
        Thread(empty.sample),
        Thread(full.wait_for_room),
        Thread(full.wait_for_room),
    ]
    empty.close()
    full.close()
    for thread in threads:
        assert thread.finished()
        assert isinstance(thread.error, ClosedError)
    with pytest.raises(ClosedError):
        full.sample()
    with pytest.raises(ClosedError):
        empty.wait_for_room()


def test_capacity_below_a_batch_is_refused():
    with pytest.raises(ValueError, match="--queue_capacity=1 is less than --batch_size=2"):
        FifoConfig(queue_capacity=1).make(SETUP)


def test_capacity_is_one_batch_unless_given():
    fifo = FifoConfig().make(SETUP)
    store = fifo.store

    def play():
        for step in range(3):
            store.hand_over(append(store, range(3), [step] * 3))

    thread = Thread(play)
    wait_until(lambda: fifo.figures() == {"queue_depth": 2.0} and thread.is_waiting(), "a full queue")
    fifo.sample()
    assert thread.finished()
