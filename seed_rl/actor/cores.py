"""Keeps an actor on one CPU core (Stooke & Abbeel, 2018, section 4.1)."""

import contextlib
import os
from pathlib import Path

_THREADS = Path("/proc/self/task")


def usable_cores() -> list[int]:
    """The numbers of the CPU cores that this process may use, in order.

    Raises:
      ValueError: this is not Linux.
    """
    if not _THREADS.is_dir():
        raise ValueError("--pin needs Linux, where a process can be kept on one CPU core; leave it out.")
    return sorted(os.sched_getaffinity(0))


def pin(core: int) -> None:
    """Keeps all threads of this process, and whatever they start later, on this CPU core."""
    for thread in _THREADS.iterdir():
        with contextlib.suppress(ProcessLookupError):  # It has just ended.
            os.sched_setaffinity(int(thread.name), {core})
