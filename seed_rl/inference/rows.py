"""The input of an inference call as one array, in memory that is reused.

It is one array, because every argument of a `tf.function` costs about as much as a small network. The memory
is reused, because touching fresh memory for the first time costs several times as much as copying a batch.
"""

import threading
from collections.abc import Sequence

import numpy as np

from seed_rl.experience.memory import aligned

# Smaller messages are faster to join and then copy together than to copy one by one.
_LARGE_MESSAGE_BYTES = 16 << 10


class Rows:
    """A batch `[B]`: each row is the record of an environment's step, and what else inference needs.

    Attributes:
      layout: the structured dtype of a row: `record`, `env_id` (int32), and `starts` (bool): whether the
        recurrent state before this step is needed.
      rows: `[B]`.
    """

    def __init__(self, record: np.dtype, max_rows: int):
        """Allocates memory for batches of up to `max_rows` records of this dtype."""
        self.layout = row_layout(record)
        self._record_bytes = record.itemsize
        self._memory = np.frombuffer(aligned(max_rows * self.layout.itemsize), np.uint8)
        self.rows = self._memory[:0].view(self.layout)

    def fill(self, records: Sequence[bytes | memoryview], env_ids: np.ndarray) -> None:
        """Starts a batch: the records of several messages, and the ids of all their environments."""
        size = self.layout.itemsize
        memory = self._memory[: len(env_ids) * size]
        by_row, end = memory.reshape(-1, size)[:, : self._record_bytes], 0
        if by_row.size < len(records) * _LARGE_MESSAGE_BYTES:
            records = [b"".join(records)]
        for message in records:
            begin, end = end, end + len(message) // self._record_bytes
            by_row[begin:end] = np.frombuffer(message, np.uint8).reshape(-1, self._record_bytes)
        self.rows = memory.view(self.layout)
        self.rows["env_id"] = env_ids
        self.rows["starts"] = False

    def take(self, rows: np.ndarray, places: np.ndarray) -> np.ndarray:
        """Starts a batch with some rows of another; returns it."""
        size = self.layout.itemsize
        memory = self._memory[: len(places) * size]
        np.take(rows.view(np.uint8).reshape(-1, size), places, axis=0, out=memory.reshape(-1, size))
        self.rows = memory.view(self.layout)
        return self.rows


class Padding:
    """Fills batches up with rows that belong to no environment: XLA compiles a function for each new shape.

    Sizes are the powers of two below the largest batch, and the largest batch. Whatever is larger than that
    is not filled up.
    """

    def __init__(self, row: np.dtype, largest: int, env_id: int):
        """Prepares for batches of up to `largest` rows of this dtype; those that are added get `env_id`."""
        self._row, self._largest, self._env_id = row, largest, env_id
        self._of_thread = threading.local()

    def size(self, num_rows: int) -> int:
        """The size that a batch of so many rows, at least 1, is filled up to."""
        if num_rows >= self._largest:
            return num_rows
        return min(1 << (num_rows - 1).bit_length(), self._largest)

    def fill(self, rows: np.ndarray) -> np.ndarray:
        """The batch `[B]`, then rows of zeros, each the first step of an episode: `[size(B)]`.

        This thread's next call overwrites it. A batch that already has the size is returned as it is.
        """
        size = self.size(len(rows))
        if size == len(rows):
            return rows
        if not hasattr(self._of_thread, "memory"):
            self._of_thread.memory = np.frombuffer(aligned(self._largest * self._row.itemsize), np.uint8)
        memory = self._of_thread.memory[: size * self._row.itemsize]
        filled, end = memory.view(self._row), rows.nbytes
        # Bytes are copied several times as fast as structures.
        memory[:end] = rows.view(np.uint8)
        memory[end:] = 0
        filled["env_id"][len(rows) :] = self._env_id
        filled["record"]["done"][len(rows) :] = True
        return filled


def row_layout(record: np.dtype) -> np.dtype:
    """The dtype of a row around records of this dtype."""
    return np.dtype([("record", record), ("env_id", "<i4"), ("starts", "?")])
