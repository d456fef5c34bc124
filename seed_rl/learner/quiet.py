"""Keeps TensorFlow's native start-up messages off the terminal, unless something goes wrong."""

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator


@contextlib.contextmanager
def quiet_start() -> Iterator[None]:
    """Holds back what native code and Python write to standard error; shows it if an exception is raised.

    TensorFlow writes lines about oneDNN and missing GPU drivers at import and at first use, which no setting
    turns off. A ValueError is meant for the user, and is easier to read without them.
    """
    sys.stderr.flush()
    terminal = os.dup(2)
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        except BaseException as error:
            if not isinstance(error, ValueError):
                held.seek(0)
                os.write(terminal, held.read())
            raise
        finally:
            sys.stderr.flush()
            os.dup2(terminal, 2)
            os.close(terminal)
