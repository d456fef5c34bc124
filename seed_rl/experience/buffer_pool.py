"""Reusable memory for batches: touching 50 MB of fresh memory takes longer than filling it."""

import collections
import mmap
import weakref

import numpy as np


class BufferPool:
    """Hands out arrays whose memory returns to the pool when the last reference to them is gone.

    Views, and tensors that share the memory, count as references. Thread-safe. The pool holds as much memory
    as was ever in use at the same time.
    """

    def __init__(self) -> None:
        self._free: dict[int, list[mmap.mmap]] = collections.defaultdict(list)

    def array(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """An uninitialized array: it contains whatever its memory held before."""
        size = max(1, int(np.prod(shape, dtype=np.int64)) * dtype.itemsize)
        free = self._free[size]
        try:
            buffer = free.pop()
        except IndexError:
            buffer = mmap.mmap(-1, size)
        array = np.ndarray(shape, dtype, buffer)
        # Not at process exit, when the pool no longer needs it.
        weakref.finalize(array, free.append, buffer).atexit = False
        return array
