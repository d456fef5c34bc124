"""Writes files completely or not at all, and appends lines. Needs only the standard library."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO


@contextlib.contextmanager
def replacing(path: str | Path) -> Iterator[BinaryIO]:
    """Opens a temporary file beside `path`, and replaces `path` with it once it is complete.

    If anything fails, `path` stays as it was and the temporary file is removed, since a full disk needs the
    space.

    Raises:
      OSError: the file cannot be written.
    """
    temporary = f"{path}.tmp"
    try:
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def write_atomically(path: Path, text: str) -> None:
    """Writes a text file (UTF-8); see `replacing`.

    Raises:
      OSError: the file cannot be written.
    """
    with replacing(path) as file:
        file.write(text.encode())


def append_line(path: str | Path, line: str) -> None:
    """Appends a line (UTF-8) to a file and closes it; creates the file if there is none.

    A full disk or a crash may have left an incomplete last line. It is terminated first, so that the new line
    does not become part of it.

    Args:
      path: the file.
      line: without a line feed.

    Raises:
      OSError: the line cannot be written completely.
    """
    with open(path, "ab+") as file:
        file.write(b"\n" * _is_torn(file) + line.encode() + b"\n")


def _is_torn(file: BinaryIO) -> bool:
    """Whether the last line of a file lacks its line feed; false for anything but a regular file."""
    if not file.seek(0, os.SEEK_END):
        return False
    file.seek(-1, os.SEEK_END)
    return file.read(1) not in (b"", b"\n")
