"""Keeps TensorFlow's native start-up messages off the terminal, unless something goes wrong."""

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator

_LEVEL, _FROM_WARNINGS_ON = "TF_CPP_MIN_LOG_LEVEL", "1"


def _lines(descriptor: int) -> Iterator[str]:
    """Lines in a file at the time of the call; the position that native code writes at does not move."""
    sys.stderr.flush()
    content = os.pread(descriptor, os.fstat(descriptor).st_size, 0)
    yield from content.decode(errors="replace").splitlines()


@contextlib.contextmanager
def quiet_start() -> Iterator[Iterable[str]]:
    """Holds back what native code and Python write to standard error; shows it if an exception is raised.

    TensorFlow writes lines about oneDNN and missing GPU drivers at import and at first use, which no setting
    turns off. The message of a ValueError is complete without them. Gives the lines up to the moment at which
    the first of them is read.

    If TensorFlow is imported inside, it writes warnings and errors only from then on, and nothing about
    compilers and devices, unless the environment variable TF_CPP_MIN_LOG_LEVEL is set.
    """
    is_ours = _LEVEL not in os.environ
    os.environ.setdefault(_LEVEL, _FROM_WARNINGS_ON)
    sys.stderr.flush()
    terminal = os.dup(2)
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield _lines(held.fileno())
        except BaseException as error:
            if not isinstance(error, ValueError):
                held.seek(0)
                os.write(terminal, held.read())
            raise
        finally:
            sys.stderr.flush()
            os.dup2(terminal, 2)
            os.close(terminal)
            if is_ours:
                os.environ.pop(_LEVEL, None)
