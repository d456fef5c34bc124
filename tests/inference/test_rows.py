import numpy as np
import pytest

from seed_rl.inference.rows import Rows

RECORD = np.dtype([("reward", "<f4"), ("observation", "u1", 3)])


def records(*rewards):
    array = np.zeros(len(rewards), RECORD)
    array["reward"] = rewards
    array["observation"] = np.arange(3)
    return array.tobytes()


def test_messages_follow_one_another():
    batch = Rows(RECORD, 8)
    batch.fill([records(1, 2), memoryview(records(3)), records(4, 5)], np.int32([7, 3, 0, 5, 6]))
    assert batch.rows["record"]["reward"].tolist() == [1, 2, 3, 4, 5]
    assert batch.rows["record"]["observation"].tolist() == [[0, 1, 2]] * 5
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
