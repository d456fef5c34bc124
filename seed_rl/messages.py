"""Messages to the user; on standard error, where a terminal that fails does not end the process."""

import contextlib
import os
import sys
from typing import TextIO


def say(text: str) -> None:
    """Writes `seed_rl: TEXT` to standard error; on a terminal it replaces a progress bar."""
    stream = sys.stderr
    try:
        start = "\r\x1b[K" if stream.isatty() else ""
        print(f"{start}seed_rl: {text}", file=stream, flush=True)
    except OSError:
        discard(stream)
    except (ValueError, AttributeError):  # Standard error is closed, or there is none.
        pass


def warn(text: str) -> None:
    """Writes `seed_rl: warning: TEXT`; otherwise like `say`."""
    say(f"warning: {text}")


def complain(text: str) -> None:
    """Writes `seed_rl: error: TEXT`; otherwise like `say`."""
    say(f"error: {text}")


def one_line(text: str, most: int = 300) -> str:
    """The text with everything escaped that is not printable, cut to at most so many characters."""
    line = "".join(c if c.isprintable() else c.encode("unicode_escape", "replace").decode() for c in text)
    return line if len(line) <= most else f"{line[: most - 1]}…"


def how_to_install(extra: str) -> str:
    """The command that installs an extra of this project. On PyPI its name may be somebody else's."""
    return f"in seed_rl's folder, run: pip install -e '.[{extra}]'"


def discard(stream: TextIO) -> None:
    """Discards everything that a stream has not written yet, and all that is written to it later.

    Use it for a stream that has failed: the rest of its buffer would fail again when the process exits, and
    so change its exit code.
    """
    with contextlib.suppress(OSError, ValueError):  # A stream without a file needs nothing.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, stream.fileno())
        finally:
            os.close(nowhere)
