"""One learner at a time in a run directory: a lock on a file in it, held for the life of the process.

The lock is taken with flock: the kernel releases it when the process ends, even by SIGKILL, so a file that
is left behind means nothing on its own. Programs that the process starts do not inherit the descriptor, since
Python opens files with close-on-exec. Nothing here may fork without exec while the lock is held.

On NFS, Linux requests the lock from the server, so it works across hosts unless the directory is mounted with
`nolock` or `local_lock`. The server releases the locks of a lost host only when its lease expires (NFSv4:
90 s by default), so a learner that takes over waits for that long. A bucket that is mounted as a directory
(Cloud Storage FUSE) has locks within one host only: learners on two hosts do not exclude each other.
"""

import contextlib
import fcntl
import io
import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, TypeVar

from seed_rl.messages import one_line, say, warn
from seed_rl.runs.layout import RunDirectory

# Time limits for a killed process on this host to disappear, and for a host that may be lost.
_SAME_HOST_SECS = 10.0
_OTHER_HOST_SECS = 100.0
_POLL_SECS = 0.1
# A wait that is longer than this is logged.
_SILENT_SECS = 1.0

_UNNAMED = "another process"

T = TypeVar("T")


@contextlib.contextmanager
def held(logdir: str | Path, stopping: Callable[[], bool] = lambda: False) -> Iterator[None]:
    """Makes the run directory and keeps other learners out of it; `stopping` ends the wait for the lock.

    Directories that were made here and are still empty at the end are removed again.

    Raises:
      ValueError: the directory cannot be written, or is in use; the message is one sentence.
    """
    path = RunDirectory(Path(logdir)).lock
    made = [directory for directory in (path.parent, *path.parent.parents) if not directory.exists()]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = _wait(logdir, lambda: _take(path), stopping)
    except OSError as error:
        if path.is_symlink():
            raise ValueError(f"{path} is a symbolic link, which is not followed; remove it.") from None
        raise ValueError(f"--logdir={logdir} cannot be written ({error.strerror}); use another.") from None
    try:
        with contextlib.suppress(OSError):  # The lock works even on a full disk.
            file.truncate(0)
            file.write(f"process {os.getpid()} on host {socket.gethostname()}\n".encode())
            os.fsync(file)
        yield
    finally:
        with contextlib.suppress(OSError):
            path.unlink()  # Before the lock is released: afterwards the file may be another learner's.
        file.close()
        with contextlib.suppress(OSError):  # A directory is not empty.
            for directory in made:
                directory.rmdir()


def check_free(logdir: str | Path) -> None:
    """Refuses a run directory that a learner holds, after the same wait as `held`; changes nothing.

    Raises:
      ValueError: a learner holds it; the message is one sentence that names the holder.
    """
    _wait(logdir, lambda: holder(logdir))


def holder(logdir: str | Path) -> str | None:
    """The process that holds a run directory, in words; None: there is none. Changes nothing."""
    with contextlib.suppress(OSError):  # No lock, no locks there, or a directory that others refuse better.
        with _open(RunDirectory(Path(logdir)).lock, "rb") as file:
            return _lock(file, fcntl.LOCK_SH)
    return None


def _wait(logdir: str | Path, attempt: Callable[[], T | str], stopping: Callable[[], bool] = bool) -> T:
    """The first result of `attempt` that is no holder; waits as long as a holder may be gone already."""
    start, has_said = time.monotonic(), False
    while isinstance(found := attempt(), str):
        is_elsewhere = found.partition(" on host ")[2] not in ("", socket.gethostname())
        patience = _OTHER_HOST_SECS if is_elsewhere else _SAME_HOST_SECS
        waited = time.monotonic() - start
        if stopping() or waited >= patience:
            raise ValueError(
                f"The run directory {logdir} is in use by {found}; stop it, or choose another --logdir."
            )
        if waited >= _SILENT_SECS and not has_said:
            has_said = True
            why = "its host is lost" if is_elsewhere else "that is ending"
            say(f"{logdir} is in use by {found}; waiting up to {patience:g} s in case {why}.")
        time.sleep(_POLL_SECS)
    return found


def _take(path: Path) -> io.FileIO | str:
    """The lock's open file once it is locked, else the holder."""
    file = _open(path, "ab+")
    try:
        found = _lock(file, fcntl.LOCK_EX)
    except OSError as error:
        found = None
        warn(
            f"the file system of {path.parent} does not support locks ({error.strerror}); make sure that no "
            "other learner uses this run directory."
        )
    if found is None:
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), os.stat(path)):
                return file
    file.close()
    return found or _UNNAMED  # A holder has removed the file in the meantime: the next attempt makes one.


def _open(path: Path, mode: Literal["rb", "ab+"]) -> io.FileIO:
    """The open file; no link is followed, since it is rewritten, and nothing waits for a pipe."""
    flags = os.O_NOFOLLOW | os.O_NONBLOCK
    return open(path, mode, buffering=0, opener=lambda name, more: os.open(name, flags | more, 0o644))


def _lock(file: io.FileIO, kind: int) -> str | None:
    """Tries to lock a file; returns the holder that it names, or None. OSError: there are no locks."""
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
        return None
    except BlockingIOError:
        return one_line(os.pread(file.fileno(), 1024, 0).decode(errors="replace"), 100) or _UNNAMED
