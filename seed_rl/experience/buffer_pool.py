"""Memory for batches that is used again: touching 50 MB of fresh memory takes longer than filling it."""

import collections
import mmap
import weakref

import numpy as np


class BufferPool:
    """Hands out arrays whose memory comes back by itself when the last reference to them is gone.

    A view, or a tensor that shares the memory, is such a reference. Thread-safe. It holds as much as was in
    use at the same time.
    """

    def __init__(self) -> None:
        self._free: dict[int, list[mmap.mmap]] = collections.defaultdict(list)

    def array(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """An array with whatever its memory held before."""
        size = max(1, int(np.prod(shape, dtype=np.int64)) * dtype.itemsize)
        free = self._free[size]
        try:
            buffer = free.pop()
        except IndexError:
            buffer = mmap.mmap(-1, size)
        array = np.ndarray(shape, dtype, buffer)
        # Not at the exit of the process, when nobody takes it back any more.
        weakref.finalize(array, free.append, buffer).atexit = False
        return array
