import threading

import numpy as np
import pytest

from seed_rl.inference.rows import Padding, Rows

RECORD = np.dtype([("reward", "<f4"), ("done", "?"), ("observation", "u1", 3)])
LARGE_RECORD = np.dtype([("reward", "<f4"), ("observation", "u1", 20_000)])
NOBODY = 100


def records(*rewards, dtype=RECORD):
    array = np.zeros(len(rewards), dtype)
    array["reward"] = rewards
    array["observation"] = np.arange(array["observation"].shape[1])
    return array.tobytes()


@pytest.mark.parametrize("dtype", [RECORD, LARGE_RECORD])  # Small messages are joined first.
def test_messages_follow_one_another(dtype):
    messages = [records(1, 2, dtype=dtype), memoryview(records(3, dtype=dtype)), records(4, 5, dtype=dtype)]
    batch = Rows(dtype, 8)
    batch.fill(messages, np.int32([7, 3, 0, 5, 6]))
    assert batch.rows["record"].tobytes() == records(1, 2, 3, 4, 5, dtype=dtype)
    assert batch.rows["env_id"].tolist() == [7, 3, 0, 5, 6]
    assert not batch.rows["starts"].any()


@pytest.mark.parametrize("max_rows", [1, 3, 100])
def test_the_same_memory_is_used_again_where_tensorflow_may_read_it(max_rows):
    batch = Rows(RECORD, max_rows)
    batch.fill([records(1)], np.int32([0]))
    batch.rows["starts"] = True
    first = batch.rows.ctypes.data
    assert first % 64 == 0
    batch.fill([records(*range(max_rows))], np.arange(max_rows, dtype=np.int32))
    assert batch.rows.ctypes.data == first
    assert not batch.rows["starts"].any()


def batch(num_rows):
    rows, records = Rows(RECORD, 16), np.ones(num_rows, RECORD)
    records["reward"] = np.arange(num_rows)
    records["done"] = False
    rows.fill([records.tobytes()], np.arange(num_rows, dtype=np.int32))
    rows.rows["starts"] = True
    return rows


def padding(largest):
    return Padding(batch(1).layout, largest, NOBODY)


@pytest.mark.parametrize(
    ("largest", "sizes"), [(1, [1]), (6, [1, 2, 4, 6]), (8, [1, 2, 4, 8]), (9, [1, 2, 4, 8, 9])]
)
def test_sizes_are_powers_of_two_and_the_largest(largest, sizes):
    found = [padding(largest).size(number) for number in range(1, largest + 1)]
    assert sorted(set(found)) == sizes
    assert all(size >= number for number, size in enumerate(found, 1))


@pytest.mark.parametrize("num_rows", range(1, 10))
def test_real_rows_stay_and_the_others_belong_to_nobody(num_rows):
    rows, filler = batch(num_rows).rows, padding(9)
    filler.fill(batch(8).rows)  # Leaves its bytes in the memory that is used again.
    filled = filler.fill(rows)
    assert len(filled) == filler.size(num_rows)
    assert filled[:num_rows].tobytes() == rows.tobytes()
    others = filled[num_rows:]
    assert (others["env_id"] == NOBODY).all()
    assert others["record"]["done"].all() and not others["starts"].any()
    assert not others["record"]["observation"].any() and not others["record"]["reward"].any()


def test_tensorflow_can_read_the_memory_in_place_and_threads_do_not_share_it():
    filler, found = padding(8), []
    threads = [threading.Thread(target=lambda: found.append(filler.fill(batch(3).rows))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    first, second = found
    assert first.ctypes.data % 64 == 0
    assert not np.shares_memory(first, second)
    assert np.shares_memory(filler.fill(batch(3).rows), filler.fill(batch(5).rows))
