import numpy as np
import pytest

from seed_rl.inference.rows import Rows

RECORD = np.dtype([("reward", "<f4"), ("observation", "u1", 3)])
LARGE_RECORD = np.dtype([("reward", "<f4"), ("observation", "u1", 20_000)])


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
