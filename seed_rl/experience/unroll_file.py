"""Saves a replay of unrolls to a file: settings, priorities, which blobs an unroll consists of, the blobs."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from seed_rl.experience.layout import Blob, Packed
from seed_rl.experience.replay_file import (
    DamagedError,
    Reader,
    check_counts,
    check_priorities,
    writing,
)
from seed_rl.experience.replay_file import read as read_file

_KIND = "unrolls"


class Contents(NamedTuple):
    """The contents of a file: settings as JSON, scaled priorities float64 `[N]`, and N unrolls.

    The oldest come first. Unrolls that share a blob share it again when they are read.
    """

    settings: dict[str, Any]
    priorities: np.ndarray
    entries: Sequence[Packed]


def write(path: str, contents: Contents) -> None:
    """Writes the file under a temporary name first, then renames it."""
    numbers: dict[int, int] = {}
    blobs: list[Blob] = []

    def number(blob: Blob) -> int:
        if id(blob) not in numbers:
            numbers[id(blob)] = len(blobs)
            blobs.append(blob)
        return numbers[id(blob)]

    rows = [[*map(number, entry[:4]), entry.policy_version] for entry in contents.entries]
    with writing(path) as file:
        counts = {"unrolls": len(rows), "blobs": len(blobs)}
        file.json({"kind": _KIND, "settings": contents.settings, **counts})
        file.array(contents.priorities)
        file.array(np.array(rows, np.int64).reshape(-1, 5))
        file.array(np.array([len(blob) for blob in blobs], np.int64))
        file.section(blobs)


def read(path: str, keep: Callable[[bytes], Blob]) -> Contents | None:
    """Reads what `write` wrote; None if there is no such file.

    Args:
      path: the file.
      keep: stores a blob and returns the stored copy.

    Raises:
      DamagedError: the contents are not what was written.
      ValueError: the file cannot be read; one sentence.
    """
    return read_file(path, lambda file: _read(file, keep))


def _read(file: Reader, keep: Callable[[bytes], Blob]) -> Contents:
    header = file.json()
    if header["kind"] != _KIND:
        raise DamagedError("it is not a replay of unrolls")
    settings = dict(header["settings"])
    count, num_blobs = header["unrolls"], header["blobs"]
    check_counts([count, num_blobs])
    priorities = file.array(np.float64, (count,))
    rows = file.array(np.int64, (count, 5))
    lengths = file.array(np.int64, (num_blobs,))
    check_priorities(priorities)
    if (lengths < 0).any() or not ((rows[:, :4] >= 0) & (rows[:, :4] < num_blobs)).all():
        raise DamagedError("its table of contents makes no sense")
    blobs = [keep(blob) for blob in file.parts(lengths.tolist())]
    file.finish()
    entries = [Packed(*(blobs[i] for i in row[:4]), row[4]) for row in rows.tolist()]
    return Contents(settings, priorities, entries)
