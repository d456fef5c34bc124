"""Saves replay to a file: numbers in NumPy's format, blobs as they are. Nothing is unpickled."""

import json
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO, NamedTuple, TypeVar

import numpy as np

from seed_rl.experience.layout import Blob, Packed
from seed_rl.files import replacing

_MAGIC = b"seed_rl replay 1\n"

T = TypeVar("T")


class Contents(NamedTuple):
    """The contents of a file: settings as JSON, scaled priorities float64 `[N]`, and N unrolls.

    The oldest come first. Unrolls that share a blob share it again when they are read.
    """

    header: dict[str, Any]
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
    with replacing(path) as file:
        file.write(_MAGIC)
        file.write(json.dumps(contents.header).encode() + b"\n")
        for array in (
            contents.priorities,
            np.array(rows, np.int64).reshape(-1, 5),
            np.array([len(blob) for blob in blobs], np.int64),
        ):
            np.save(file, array, allow_pickle=False)
        for blob in blobs:
            file.write(blob)


def read(path: str, keep: Callable[[bytes], Blob]) -> Contents | None:
    """Reads what `write` wrote; None if there is no such file.

    Args:
      path: the file.
      keep: stores a blob and returns the stored copy.

    Raises:
      ValueError: it is not such a file, or it is damaged.
    """
    return parse(path, lambda file: _read(file, keep))


def parse(path: str, function: Callable[[BinaryIO], T]) -> T | None:
    """What `function` returns for a file with the contents of a replay; None if there is no such file.

    Raises:
      ValueError: the file cannot be opened, or `function` cannot make anything of it.
    """
    try:
        with open(path, "rb") as file:
            return function(file)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, EOFError, KeyError, IndexError, TypeError) as error:
        raise ValueError(
            f"{path} cannot be read ({error}); move it away to continue with an empty replay."
        ) from None


def _read(file: BinaryIO, keep: Callable[[bytes], Blob]) -> Contents:
    if file.readline() != _MAGIC:
        raise ValueError("it is not a replay")
    header = json.loads(file.readline())
    priorities, rows, lengths = (np.load(file, allow_pickle=False) for _ in range(3))
    blobs = [keep(file.read(length)) for length in lengths.tolist()]
    if [len(blob) for blob in blobs] != lengths.tolist() or len(rows) != len(priorities):
        raise ValueError("it ends too early")
    entries = [Packed(*(blobs[i] for i in row[:4]), row[4]) for row in rows.tolist()]
    return Contents(header, priorities, entries)
