"""Messages to the user; on standard error, where a terminal that fails does not end the process."""

import contextlib
import importlib.metadata
import logging
import os
import re
import shlex
import socket
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

# TensorFlow's text around its messages: names of operations, and where a graph's ones come from.
_TENSORFLOW = re.compile(
    r"\[\[\{\{node [^{}]*\}\}[^\]]*\]\]|\{\{(function_)?node [^{}]*\}\}|\[Op:[^\]]*\]"
    r"|^(Graph execution error:|Detected at node .*|  File .*)$",
    re.MULTILINE,
)


# The variable with the descriptor and the inode of the socket to the process that started this one.
LAUNCHER_LINK = "SEED_RL_LAUNCHER_LINK"
_LINK = os.environ.get(LAUNCHER_LINK, "")  # Now: environments may change the variables.
# Reports to it: training is complete; a usage error, with its sentence; an episode of an actor has ended.
COMPLETE, REFUSED, EPISODE = b"complete", b"refused", b"episode"

_MOST_SAID = 2_000
_MOST_FROM_LIBRARIES = 300
_MOST_KINDS = 50
_POWERS_OF_TEN = {10**n for n in range(19)}
_FAILURES = "seed_rl.failures"


def say(text: str, *commands: str) -> None:
    """Writes `seed_rl: TEXT` to standard error, as one line; on a terminal it replaces a progress bar.

    Each of the commands follows on a line of its own, from which it can be copied.
    """
    stream = sys.stderr
    try:
        start = "\r\x1b[K" if stream.isatty() else ""
        lines = (f"{start}seed_rl: {one_line(text, _MOST_SAID)}", *(f"  {one_line(c)}" for c in commands))
        print(*lines, sep="\n", file=stream, flush=True)
    except OSError:
        discard(stream)
    except (ValueError, AttributeError):  # Standard error is closed, or there is none.
        pass


def report_to_launcher(line: bytes) -> None:
    """Sends a line to the process that started this one (`launch.child.Child.reports`), if that reads it.

    Nothing else goes there, unlike to the output, where environments and libraries print.
    """
    descriptor, _, inode = _LINK.partition(":")
    with contextlib.suppress(OSError, ValueError):  # There is none, or only the variable was inherited.
        if os.fstat(int(descriptor)).st_ino == int(inode):
            with socket.socket(fileno=os.dup(int(descriptor))) as link:
                link.sendall(line + b"\n")


def warn(text: str) -> None:
    """Writes `seed_rl: warning: TEXT`; otherwise like `say`."""
    say(f"warning: {text}")


def complain(text: str) -> None:
    """Writes `seed_rl: error: TEXT`; otherwise like `say`."""
    say(f"error: {text}")


def one_line(text: object, most: int | None = None) -> str:
    r"""Text of another process as part of one line: it can neither end the line nor control a terminal.

    Characters that are not printable are escaped; a line feed becomes `\n`. If the text is longer than `most`
    characters, its middle is left out, because the reason for an error is often at the end.
    """
    found = str(text).strip()
    if most is not None and len(found) > 2 * most:  # Not all of a huge text is escaped.
        found = found[:most] + found[-most:]
    line = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in found)
    if most is None or len(line) <= most:
        return line
    return f"{line[: most - most // 2 - 1]}…{line[-(most // 2) :]}"


def reason(error: BaseException, most: int = 200) -> str:
    """The first line of an exception's message, without what TensorFlow writes around it, by `one_line`.

    It is the name of the exception's type if there is no such line.
    """
    lines = _TENSORFLOW.sub("", str(error)).splitlines()
    first = next((line for line in lines if line.strip()), type(error).__name__)
    return one_line(first, most).rstrip(".")


def in_columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table; all rows are equally long."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(f"{cell:<{w}}" for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]


def last_line(output: bytes, most: int = 500) -> str:
    """The last line of a process's output that is not empty, by `one_line`; '' if there is none."""
    lines = reversed(output.decode(errors="replace").split("\n"))
    return one_line(next((line for line in lines if line.strip()), ""), most)


class LineFormatter(logging.Formatter):
    """Formats each record of a log as one line (and a traceback, if it has one)."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        """The line, with what is not printable escaped."""
        return one_line(super().formatMessage(record))


def log_lines() -> None:
    """Sends log records of level INFO and above to standard error, with the time, by `LineFormatter`."""
    handler = logging.StreamHandler()
    handler.setFormatter(LineFormatter("%(asctime)s %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.INFO)


def how_to_install(extra: str) -> str:
    """The command that installs an extra of this project, for this interpreter.

    On PyPI its name may be somebody else's, so sources that are not installed are named by their path.
    """
    try:
        importlib.metadata.distribution("seed_rl")
        what = ["seed_rl"]
    except importlib.metadata.PackageNotFoundError:
        what = ["-e", str(Path(__file__).parents[1])]
    command = [sys.executable, "-m", "pip", "install", *what[:-1]]
    return f"run: {shlex.join(command)} '{what[-1]}[{extra}]'"


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


def quiet_libraries() -> None:
    """Limits what gRPC and asyncio write: peers cause it, without a token, at any rate.

    gRPC's core writes nothing at all (`seed_rl/__init__.py`).
    """
    for name in ("grpc", "asyncio", _FAILURES):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [_Counting(logging.WARNING)], False


def log_failure(what: str, error: Exception) -> None:
    """Logs an error that ends only what raised it; after `quiet_libraries`, not every time."""
    logging.getLogger(_FAILURES).error(f"{what} failed", exc_info=error)


class _Counting(logging.Handler):
    """Writes the 1st, 10th, 100th, ... record of each kind, in a line that says how many there were.

    A bug keeps its traceback, the first time: where one of our own functions has raised the error.
    """

    def __init__(self, level: int):
        super().__init__(level)
        self._counts: dict[tuple[str, str, str], int] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Writes a record or counts it."""
        error = record.exc_info[1] if record.exc_info else None
        if error is None and isinstance(record.msg, BaseException):
            error = record.msg
        what = str(record.msg).partition("\n")[0] if isinstance(record.msg, str) else ""
        kind = (record.name, what[:_MOST_FROM_LIBRARIES], type(error).__name__)
        if kind not in self._counts and len(self._counts) >= _MOST_KINDS:
            kind = ("", "others", "")
        count = self._counts[kind] = self._counts.get(kind, 0) + 1
        if count not in _POWERS_OF_TEN:
            return
        said = record.getMessage().partition("\n")[0]
        if error is not None and error is not record.msg:
            said += f" ({error!r})"
        times = f" ({count} times so far)" if count > 1 else ""
        warn(f"{record.name}: {one_line(said, _MOST_FROM_LIBRARIES)}{times}")
        if count == 1 and error is not None and _is_ours(error):
            for line in "".join(traceback.format_tb(error.__traceback__)).splitlines():
                say(line)


def _is_ours(error: BaseException) -> bool:
    """Whether an error was raised in this package, and not because a call has ended."""
    if type(error).__module__.startswith("grpc"):
        return False
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return any(frame.f_globals.get("__name__", "").startswith("seed_rl.") for frame in frames)
