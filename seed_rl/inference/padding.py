"""Batches of a few fixed sizes: XLA compiles a function again for each new shape."""

import threading

import numpy as np

from seed_rl.inference.rows import aligned


class Padding:
    """Fills batches up with rows that belong to no environment.

    Sizes are the powers of two below the largest batch, and the largest batch. Whatever is larger than that
    is not filled up.
    """

    def __init__(self, row: np.dtype, largest: int, env_id: int):
        """Prepares; threads get memory of their own.

        Args:
          row: the structured dtype of a row, `Rows.layout`.
          largest: environments in the largest batch.
          env_id: of the rows that are added.
        """
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
            self._of_thread.memory = aligned(self._largest * self._row.itemsize)
        memory = self._of_thread.memory[: size * self._row.itemsize]
        filled, end = memory.view(self._row), rows.nbytes
        # Bytes are copied several times as fast as structures.
        memory[:end] = rows.view(np.uint8)
        memory[end:] = 0
        filled["env_id"][len(rows) :] = self._env_id
        filled["record"]["done"][len(rows) :] = True
        return filled
