"""Keeps TensorFlow's native start-up messages off the terminal, unless something goes wrong."""

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from typing import BinaryIO


class HeldOutput:
    """What has been written to standard error so far; iterating over it reads its lines."""

    def __init__(self, file: BinaryIO):
        self._file = file

    def __iter__(self) -> Iterator[str]:
        """Iterates over the lines, without moving the place that native code writes at."""
        sys.stderr.flush()
        descriptor = self._file.fileno()
        content = os.pread(descriptor, os.fstat(descriptor).st_size, 0)
        return iter(content.decode(errors="replace").splitlines())


@contextlib.contextmanager
def quiet_start() -> Iterator[HeldOutput]:
    """Holds back what native code and Python write to standard error; shows it if an exception is raised.

    TensorFlow writes lines about oneDNN and missing GPU drivers at import and at first use, which no setting
    turns off. The message of a ValueError is complete without them.
    """
    sys.stderr.flush()
    terminal = os.dup(2)
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield HeldOutput(held)
        except BaseException as error:
            if not isinstance(error, ValueError):
                held.seek(0)
                os.write(terminal, held.read())
            raise
        finally:
            sys.stderr.flush()
            os.dup2(terminal, 2)
            os.close(terminal)
