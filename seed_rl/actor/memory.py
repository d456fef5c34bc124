"""Keeps memory that an actor frees with the process, for reuse."""

import ctypes

# From malloc.h.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3

_KEPT_BYTES = 128 << 20
_LARGEST_BLOCK_BYTES = 32 << 20


def keep_freed_memory() -> bool:
    """Makes glibc keep freed memory for the next allocation; returns whether that worked.

    An actor sends messages of the same size all the time. glibc would return the memory of large ones to
    the system each time, and touching fresh memory for the first time costs more than everything else that
    is done with such a message. With another C library, nothing changes.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES) and mallopt(_M_MMAP_THRESHOLD, _LARGEST_BLOCK_BYTES))
