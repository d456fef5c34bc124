"""How much memory replay may use on this machine."""

from pathlib import Path

import psutil

_SHARE = 0.5
_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


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
    """The limit in bytes: `max_bytes`, or half of the memory.

    Args:
      max_bytes: the limit in the settings.
      memory: bytes that the process may use.

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


def check_tables(size: int, table_bytes: int, max_bytes: int) -> None:
    """Refuses a replay whose tables alone, which are allocated at the start, take too much memory.

    Args:
      size: what --replay_buffer_size asks for.
      table_bytes: memory of its tables, in bytes.
      max_bytes: memory that replay may use.

    Raises:
      ValueError: the tables take more; one sentence.
    """
    if table_bytes > max_bytes:
        raise ValueError(
            f"--replay_buffer_size={size} takes {table_bytes / 2**30:.3g} GiB for its tables alone, but "
            f"replay may use {max_bytes / 2**30:.3g} GiB; lower it, or raise --replay_max_bytes (half of the "
            "machine's memory by default)."
        )
