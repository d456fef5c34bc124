"""The file that a replay of either kind is saved in: a line that names the format, then sections.

A section is its length in bytes (uint64), its bytes, and their CRC-32 (uint32), little-endian. The first one
is a header in JSON, with `kind`. The others are arrays. Of a replay of unrolls: priorities, the table of the
blobs of each unroll, the lengths of the blobs, and the blobs one after the other. Of transitions, for one
environment after the other: the number of its steps, priorities, and each of its rings. Nothing is
unpickled, and nothing is allocated for more bytes than the file has.
"""

import contextlib
import json
import math
import os
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, BinaryIO, NamedTuple, TypeVar

import numpy as np

from seed_rl.experience.base import MisfitError
from seed_rl.experience.layout import Blob, Packed
from seed_rl.files import parse_json, replacing

_MAGIC = b"seed_rl replay 3\n"
_LENGTH, _CHECKSUM = struct.Struct("<Q"), struct.Struct("<I")

T = TypeVar("T")

Bytes = bytes | memoryview | np.ndarray


class DamagedError(ValueError):
    """The contents of a file are not what was written; the message is the reason, a few words."""


class Writer:
    """Writes sections one after the other."""

    def __init__(self, file: BinaryIO):
        """Writes the first line to a file that is empty."""
        self._file = file
        file.write(_MAGIC)

    def header(self, kind: str, fields: dict[str, Any]) -> None:
        """Writes the header of a replay of this kind."""
        self.section([json.dumps({"kind": kind, **fields}).encode()])

    def array(self, array: np.ndarray) -> None:
        """Writes a section with the values of an array, without its shape and dtype."""
        self.section([_raw(np.ascontiguousarray(array))])

    def section(self, parts: Sequence[Bytes]) -> None:
        """Writes a section of bytes that are in several places."""
        checksum = 0
        self._file.write(_LENGTH.pack(sum(map(len, parts))))
        for part in parts:
            checksum = zlib.crc32(part, checksum)
            self._file.write(part)
        self._file.write(_CHECKSUM.pack(checksum))


class Reader:
    """Reads the sections that a `Writer` wrote, in the same order.

    All methods raise DamagedError if the next section is not what was written.
    """

    def __init__(self, file: BinaryIO):
        """Reads the first line."""
        self._file, self._left = file, os.fstat(file.fileno()).st_size
        magic = file.readline(len(_MAGIC))
        self._left -= len(magic)
        if magic != _MAGIC:
            is_older = magic.startswith((b"seed_rl replay ", b"seed_rl transitio"))
            raise DamagedError(
                "another version of seed_rl wrote it" if is_older else "it does not begin as a replay does"
            )

    def header(self, kind: str) -> dict[str, Any]:
        """The fields of the header of a replay of this kind."""
        (text,) = self.parts(None)
        try:
            fields = parse_json(text)
        except ValueError as error:
            raise DamagedError(f"its header is not JSON: {error}") from None
        if fields.pop("kind") != kind:
            raise DamagedError(f"it is not a replay of {kind}")
        return fields

    def array(self, dtype: type | np.dtype, shape: tuple[int, ...]) -> np.ndarray:
        """A section with an array."""
        size = math.prod(shape) * np.dtype(dtype).itemsize
        (values,) = self.parts([size])
        return np.frombuffer(values, dtype).reshape(shape)

    def into(self, array: np.ndarray) -> None:
        """Reads a section into an array, which must be contiguous."""
        raw = _raw(array)
        self._begin(len(raw))
        if self._file.readinto(raw) != len(raw):  # type: ignore[attr-defined]
            raise DamagedError("it ends too early")
        self._end(len(raw), zlib.crc32(raw))

    def parts(self, lengths: Sequence[int] | None) -> Iterator[bytes]:
        """The parts of a section, by their lengths; None: it has one. To be exhausted."""
        total = self._begin(None if lengths is None else sum(lengths))
        checksum = 0
        for length in [total] if lengths is None else lengths:
            part = self._file.read(length)
            checksum = zlib.crc32(part, checksum)
            yield part
        self._end(total, checksum)

    def finish(self) -> None:
        """There must be no further section."""
        if self._left:
            raise DamagedError(f"{self._left} bytes too many follow its last section")

    def _begin(self, expected: int | None) -> int:
        head = self._file.read(_LENGTH.size)
        self._left -= len(head)
        length = _LENGTH.unpack(head)[0] if len(head) == _LENGTH.size else None
        if length is None or length + _CHECKSUM.size > self._left:
            raise DamagedError("it ends too early")
        if expected not in (None, length):
            raise DamagedError(f"a section has {length} bytes, not {expected}")
        return length

    def _end(self, length: int, checksum: int) -> None:
        self._left -= length + _CHECKSUM.size
        if self._file.read(_CHECKSUM.size) != _CHECKSUM.pack(checksum):
            raise DamagedError("a checksum is wrong")


@contextlib.contextmanager
def writing(path: str) -> Iterator[Writer]:
    """Writes a file under a temporary name first, then renames it; see `files.replacing`."""
    with replacing(path) as file:
        yield Writer(file)


def read(path: str, function: Callable[[Reader], T]) -> T | None:
    """Result of `function` for a file; None if there is no such file.

    Raises:
      DamagedError: the contents are not what was written.
      MisfitError: they do not fit this run; raised by `function`.
      ValueError: the file cannot be opened or read; one sentence.
    """
    try:
        with open(path, "rb") as file:
            return function(Reader(file))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ValueError(
            f"{path} cannot be read ({error.strerror}); move it away to continue with an empty replay."
        ) from None
    except (DamagedError, MisfitError):
        raise
    except (ValueError, TypeError, LookupError, OverflowError) as error:  # A value that is out of place.
        raise DamagedError(f"its contents make no sense: {error}") from None


def check_priorities(priorities: np.ndarray) -> None:
    """Raises DamagedError unless all scaled priorities are finite and at least 0."""
    if not (np.isfinite(priorities) & (priorities >= 0)).all():
        raise DamagedError("a priority is negative or not finite")


def check_counts(counts: Iterable[Any]) -> None:
    """Raises DamagedError unless all of these are whole numbers of at least 0."""
    for count in counts:
        if type(count) is not int or count < 0:
            raise DamagedError(f"its header has {count!r} for a number")


def _raw(array: np.ndarray) -> np.ndarray:
    """The bytes of a contiguous array, as a view."""
    assert array.flags.c_contiguous
    return array.reshape(-1).view(np.uint8)


def check_same(path: str, what: str, found: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Raises MisfitError unless the settings of a file are those of this run; `what` do they decide on."""
    if found != wanted:
        raise MisfitError(
            f"{path} contains a replay with other {what} ({found}, not {wanted}); use the flags that it was "
            "written with, or move it away to continue with an empty replay."
        )


class Unrolls(NamedTuple):
    """A replay of unrolls: settings as JSON, scaled priorities float64 `[N]`, and N unrolls.

    The oldest come first. Unrolls that share a blob share it again when they are read.
    """

    settings: dict[str, Any]
    priorities: np.ndarray
    entries: Sequence[Packed]

    def write(self, path: str) -> None:
        """Writes the file under a temporary name first, then renames it."""
        numbers: dict[int, int] = {}
        blobs: list[Blob] = []

        def number(blob: Blob) -> int:
            if id(blob) not in numbers:
                numbers[id(blob)] = len(blobs)
                blobs.append(blob)
            return numbers[id(blob)]

        rows = [list(map(number, entry)) for entry in self.entries]
        with writing(path) as file:
            counts = {"unrolls": len(rows), "blobs": len(blobs)}
            file.header("unrolls", {"settings": self.settings, **counts})
            file.array(self.priorities)
            file.array(np.array(rows, np.int64).reshape(-1, 4))
            file.array(np.array([len(blob) for blob in blobs], np.int64))
            file.section(blobs)

    @classmethod
    def read(cls, file: Reader, keep: Callable[[bytes], Blob]) -> "Unrolls":
        """The contents; `keep` stores a blob and returns the stored copy. See `read` for errors."""
        header = file.header("unrolls")
        settings = dict(header["settings"])
        count, num_blobs = header["unrolls"], header["blobs"]
        check_counts([count, num_blobs])
        priorities = file.array(np.float64, (count,))
        rows = file.array(np.int64, (count, 4))
        lengths = file.array(np.int64, (num_blobs,))
        check_priorities(priorities)
        if (lengths < 0).any() or not ((rows >= 0) & (rows < num_blobs)).all():
            raise DamagedError("its table of contents makes no sense")
        blobs = [keep(blob) for blob in file.parts(lengths.tolist())]
        file.finish()
        return cls(settings, priorities, [Packed(*(blobs[i] for i in row)) for row in rows.tolist()])
