"""Memory of batches and of replay: reused, packed into segments, and limited to what the machine has."""

import collections
import ctypes
import math
import mmap
import weakref
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil

from seed_rl.experience.base import MisfitError

# TensorFlow reads arrays in place that begin at a multiple of as many bytes.
_ALIGNMENT = 64

# Of the machine's memory, what replay may use by default.
_SHARE = 0.5
_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


class Leaf(NamedTuple):
    """One array of a step or of a recurrent state, without the batch dimension."""

    shape: tuple[int, ...]
    dtype: np.dtype

    @property
    def nbytes(self) -> int:
        """Bytes of one of it."""
        return math.prod(self.shape) * self.dtype.itemsize

    def describe(self) -> list[Any]:
        """Shape and dtype in a form that JSON supports."""
        return [list(self.shape), self.dtype.str]


class BufferPool:
    """Hands out arrays whose memory returns to the pool when the last reference to them is gone.

    Touching 50 MB of fresh memory takes longer than filling it. Views, and tensors that share the memory,
    count as references. Thread-safe. The pool holds as much memory as was ever in use at the same time.
    """

    def __init__(self) -> None:
        self._free: dict[int, list[Any]] = collections.defaultdict(list)

    def array(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """An uninitialized array: it contains whatever its memory held before."""
        size = max(1, math.prod(shape) * dtype.itemsize)
        free = self._free[size]
        try:
            buffer = free.pop()
        except IndexError:
            buffer = aligned(size)
        array = np.ndarray(shape, dtype, buffer)
        # Not at process exit, when the pool no longer needs it.
        weakref.finalize(array, free.append, buffer).atexit = False
        return array


def aligned(size: int) -> Any:
    """So many bytes. NumPy keeps these, and not the array that they are part of, as the base of its views."""
    memory = np.empty(size + _ALIGNMENT, np.uint8)
    return (ctypes.c_uint8 * size).from_buffer(memory, -memory.ctypes.data % _ALIGNMENT)  # type: ignore


class Arena:
    """Puts many small blobs one after the other into large segments of memory. Not thread-safe.

    A segment is returned to the operating system when the last of its blobs is dropped, so they should be
    dropped in the order in which they were added. Blobs allocated one by one, among the short-lived buffers
    of compression, leave holes in the heap that nothing fits into: on Pong, the process grew to several
    times the size of its blobs.
    """

    def __init__(self, segment_bytes: int):
        """Allocates nothing yet; a segment has `segment_bytes`, or the size of a blob that is larger."""
        self._segment_bytes = segment_bytes
        self._segment = memoryview(b"")
        self._used = 0

    def put(self, blob: bytes | memoryview) -> memoryview:
        """Copies a blob and returns a view of the copy; the view keeps the memory alive."""
        start, stop = self._used, self._used + len(blob)
        if stop > len(self._segment):
            self._segment = memoryview(mmap.mmap(-1, max(self._segment_bytes, len(blob))))
            start, stop = 0, len(blob)
        self._segment[start:stop] = blob
        self._used = stop
        return self._segment[start:stop]


def machine_memory() -> int:
    """Bytes of memory that this process may use: the machine's, or its container's if that is less."""
    limits = [psutil.virtual_memory().total]
    for path in map(Path, _CGROUP_LIMITS):
        try:
            limits.append(int(path.read_text()))
        except (OSError, ValueError):  # Not in a container, or "max".
            continue
    return min(limits)


def replay_limit(max_bytes: int | None, memory: int) -> int:
    """The limit of replay in bytes: `max_bytes`, or half of the `memory` that the process may use.

    Raises:
      ValueError: `max_bytes` is more than there is.
    """
    if max_bytes is None:
        return int(_SHARE * memory)
    if max_bytes > memory:
        raise ValueError(
            f"--replay_max_bytes={max_bytes} ({max_bytes / 2**30:.1f} GiB) is more than this machine's "
            f"memory ({memory / 2**30:.1f} GiB); lower it, and leave some for everything else."
        )
    return max_bytes


def check_fits(what: str, size: int, max_bytes: int) -> None:
    """Refuses replay that may take more memory than `max_bytes`.

    Raises:
      MisfitError: `size`, in bytes, is more; one sentence that begins with `what`.
    """
    if size > max_bytes:
        raise MisfitError(
            f"{what} {size / 2**30:.3g} GiB, but replay may use {max_bytes / 2**30:.3g} GiB; lower it, or "
            "raise --replay_max_bytes (half of the machine's memory by default)."
        )
