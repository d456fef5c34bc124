"""The file format of every replay: a line that names it, then sections with a length and a checksum each.

A section is its length in bytes (uint64), its bytes, and their CRC-32 (uint32), little-endian. The first one
is a header in JSON; `unroll_file` and `transition_file` say what follows. Nothing is unpickled, and nothing
is allocated for more bytes than the file has.
"""

import contextlib
import json
import math
import os
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, BinaryIO, TypeVar

import numpy as np

from seed_rl.files import parse_json, replacing

_MAGIC = b"seed_rl replay 2\n"
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

    def json(self, value: Any) -> None:
        """Writes a section with a JSON value."""
        self.section([json.dumps(value).encode()])

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

    def json(self) -> Any:
        """The value of a section with JSON."""
        (text,) = self.parts(None)
        try:
            return parse_json(text)
        except ValueError as error:
            raise DamagedError(f"its header is not JSON: {error}") from None

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
    """What `function` makes of a file; None if there is no such file.

    Raises:
      DamagedError: the contents are not what was written.
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
    except DamagedError:
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
