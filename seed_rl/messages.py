"""Lines for people on standard error, where trouble with the terminal ends nothing."""

import contextlib
import os
import sys
from typing import TextIO


def say(text: str) -> None:
    """Writes `seed_rl: TEXT` on standard error, on a terminal in the place of a progress bar."""
    stream = sys.stderr
    try:
        start = "\r\x1b[K" if stream.isatty() else ""
        print(f"{start}seed_rl: {text}", file=stream, flush=True)
    except OSError:
        discard(stream)
    except (ValueError, AttributeError):  # It is closed, or there is none.
        pass


def warn(text: str) -> None:
    """Writes `seed_rl: warning: TEXT`; otherwise as `say`."""
    say(f"warning: {text}")


def complain(text: str) -> None:
    """Writes `seed_rl: error: TEXT`; otherwise as `say`."""
    say(f"error: {text}")


def discard(stream: TextIO) -> None:
    """Sends whatever else is written to a stream to nowhere.

    For a stream that has failed. What is left in its buffer would fail again at the process's exit, and so
    change its exit code.
    """
    with contextlib.suppress(OSError, ValueError):  # A stream without a file of its own needs no more.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, stream.fileno())
        finally:
            os.close(nowhere)
