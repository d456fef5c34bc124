"""Keeps an actor's freed memory with the process."""

import ctypes
import sys

# Of malloc.h.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3

_KEPT_BYTES = 128 << 20
_LARGEST_BLOCK_BYTES = 32 << 20


def keep_freed_memory() -> bool:
    """Has glibc keep freed memory for the next allocation; returns whether it does.

    An actor sends messages of the same size all the time. glibc would give the memory of large ones back to
    the system each time, and the first touch of memory costs more than all else that is done with such a
    message. With another C library, nothing changes.
    """
    if sys.platform != "linux":
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES) and mallopt(_M_MMAP_THRESHOLD, _LARGEST_BLOCK_BYTES))
