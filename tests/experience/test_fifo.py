import numpy as np
import pytest

from seed_rl.experience.base import ClosedError
from seed_rl.experience.config import FifoConfig
from seed_rl.experience.fifo import Fifo, stack
from seed_rl.experience.unroll_config import UnrollConfig
from seed_rl.types import AgentOutput, EnvOutput, Unroll
from tests.threads import Thread
from tests.waiting import wait_until

S = 3
UNROLL = UnrollConfig(S - 1)


def unroll(number):
    steps = np.full(S, number, np.float32)
    env = EnvOutput(steps, steps > 0, steps < 0, {"image": np.full((S, 4, 2), number, np.uint8)})
    state = (np.full(5, number, np.float32),)
    return Unroll(steps.astype(np.int32), env, AgentOutput(steps, {"q": steps}), state, number)


def no_priorities(unrolls):
    raise AssertionError("A queue has no priorities.")


def numbers(batch):
    return batch.policy_version.tolist()


def test_stack_is_time_major():
    sample, versions, handle = stack([unroll(n) for n in (7, 8)])
    assert sample.prev_action.shape == (S, 2)
    assert sample.env.observation["image"].shape == (S, 2, 4, 2)
    assert sample.agent.info["q"].tolist() == [[7, 8]] * S
    assert sample.initial_state[0].tolist() == [[7] * 5, [8] * 5]
    assert sample.weight.dtype == np.float32
    assert sample.weight.tolist() == [1, 1]
    assert (versions.dtype, versions.tolist(), handle) == (np.int64, [7, 8], None)


def test_first_in_first_out_each_once():
    fifo = Fifo(2, capacity=6)
    fifo.insert([unroll(n) for n in range(5)])
    assert fifo.figures() == {"queue_depth": 5.0}
    assert [numbers(fifo.sample()) for _ in range(2)] == [[0, 1], [2, 3]]
    fifo.insert([unroll(5)])
    assert numbers(fifo.sample()) == [4, 5]
    assert fifo.figures() == {"queue_depth": 0.0}


def test_several_passes_train_on_each_so_often_and_new_ones_have_their_room():
    fifo = Fifo(2, capacity=4, passes=2)
    fifo.insert([unroll(n) for n in range(4)])
    assert [numbers(fifo.sample()) for _ in range(2)] == [[0, 1], [2, 3]]
    assert fifo.figures() == {"queue_depth": 0.0}
    fifo.insert([unroll(n) for n in range(4, 8)])  # Would block if the first four took up room.
    batches = [numbers(fifo.sample()) for _ in range(6)]
    assert sorted(n for batch in batches for n in batch) == sorted([*range(4), *[*range(4, 8)] * 2])


def test_insert_waits_for_room():
    fifo = Fifo(2, capacity=3)
    thread = Thread(fifo.insert, [unroll(n) for n in range(6)])
    assert numbers(fifo.sample()) == [0, 1]
    # 2 are out and 3 fill the queue: one waits.
    wait_until(lambda: fifo.figures() == {"queue_depth": 3.0} and thread.is_waiting(), "a full queue")
    assert numbers(fifo.sample()) == [2, 3]
    assert thread.finished()
    assert fifo.figures() == {"queue_depth": 2.0}


def test_sample_waits_for_a_full_batch():
    fifo, got = Fifo(2), []
    thread = Thread(lambda: got.append(numbers(fifo.sample())))
    fifo.insert([unroll(0)])
    wait_until(thread.is_waiting, "a sample that waits")
    assert got == []
    fifo.insert([unroll(1)])
    assert thread.finished()
    assert got == [[0, 1]]


def test_close_wakes_everybody_now_and_later():
    empty, full = Fifo(2), Fifo(2)
    full.insert([unroll(0), unroll(1)])
    threads = [
        Thread(empty.sample),
        Thread(empty.sample),
        Thread(full.insert, [unroll(2)]),
        Thread(full.insert, [unroll(3)]),
    ]
    empty.close()
    full.close()
    for thread in threads:
        assert thread.finished()
        assert isinstance(thread.error, ClosedError)
    with pytest.raises(ClosedError):
        full.sample()
    with pytest.raises(ClosedError):
        empty.insert([unroll(0)])


def test_capacity_below_a_batch_is_refused():
    with pytest.raises(ValueError, match="--queue_capacity=3 is less than --batch_size=4"):
        FifoConfig(queue_capacity=3).make(4, UNROLL, no_priorities, seed=0)


def test_capacity_is_one_batch_unless_given():
    fifo = FifoConfig().make(2, UNROLL, no_priorities, seed=0)
    thread = Thread(fifo.insert, [unroll(n) for n in range(3)])
    wait_until(lambda: fifo.figures() == {"queue_depth": 2.0} and thread.is_waiting(), "a full queue")
    fifo.sample()
    assert thread.finished()
