"""One learner at a time in a run directory: a lock on a file in it, held for the life of the process.

The lock is taken with flock: the kernel releases it when the process ends, even by SIGKILL, so a file that
is left behind means nothing on its own. Programs that the process starts do not inherit the descriptor, since
Python opens files with close-on-exec. Nothing here may fork without exec while the lock is held.

On NFS, Linux requests the lock from the server, so it works across hosts unless the directory is mounted with
`nolock` or `local_lock`. The server releases the locks of a lost host only when its lease expires (NFSv4:
90 s by default), so a learner that takes over waits for that long. A bucket that is mounted as a directory
(Cloud Storage FUSE) has locks within one host only: learners on two hosts do not see each other.
"""

import contextlib
import fcntl
import os
import re
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from seed_rl.messages import say, warn
from seed_rl.runs.layout import RunDirectory

# How long to wait for a killed process on this host to disappear, and for a host that may be lost.
_SAME_HOST_SECS = 10.0
_OTHER_HOST_SECS = 100.0
_POLL_SECS = 0.1
# A wait that is longer than this is said.
_SILENT_SECS = 1.0

# The file is truncated and rewritten, so no link is followed; and nothing waits for a pipe.
_OPEN = os.O_NOFOLLOW | os.O_NONBLOCK

_PROCESS = re.compile(r"[1-9][0-9]{0,9}")


class Holder(NamedTuple):
    """Who holds a lock according to the file; empty strings if the file does not say."""

    process: str = ""
    host: str = ""

    def __str__(self) -> str:
        return f"process {self.process} on host {self.host}" if self.host else "another process"


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
        handle = _take(path, stopping)
    except OSError as error:
        if path.is_symlink():
            raise ValueError(f"{path} is a symbolic link, which is not followed; remove it.") from None
        raise ValueError(f"--logdir={logdir} cannot be written ({error.strerror}); use another.") from None
    try:
        with contextlib.suppress(OSError):  # The lock works even on a full disk.
            os.ftruncate(handle, 0)
            os.write(handle, f"{os.getpid()} {socket.gethostname()}\n".encode())
            os.fsync(handle)
        yield
    finally:
        with contextlib.suppress(OSError):
            path.unlink()  # Before the lock is released: afterwards the file may be another learner's.
        os.close(handle)
        with contextlib.suppress(OSError):  # A directory is not empty.
            for directory in made:
                directory.rmdir()


def check_free(logdir: str | Path) -> None:
    """Refuses a run directory that a learner holds; changes nothing.

    Raises:
      ValueError: a learner holds it; the message is one sentence that names the holder.
    """
    start, has_said = time.monotonic(), False
    while (found := holder(logdir)) is not None:
        waited = time.monotonic() - start
        if waited >= _SAME_HOST_SECS:
            raise ValueError(_refusal(logdir, found))
        if waited >= _SILENT_SECS and not has_said:
            has_said = True
            say(f"{logdir} is in use by {found}; waiting up to {_SAME_HOST_SECS:g} s in case that is ending.")
        time.sleep(_POLL_SECS)


def holder(logdir: str | Path) -> Holder | None:
    """The learner that holds a run directory; None: there is none. Changes nothing."""
    path = RunDirectory(Path(logdir)).lock
    try:
        handle = os.open(path, os.O_RDONLY | _OPEN)
    except OSError:  # There is no lock, or the directory is unusable, which other checks report better.
        return None
    try:
        return None if _lock(handle, fcntl.LOCK_SH, path) else _read(handle)
    finally:
        os.close(handle)


def _take(path: Path, stopping: Callable[[], bool]) -> int:
    """Waits for the lock as long as its holder may be gone already; returns the lock file's descriptor."""
    start, has_said = time.monotonic(), False
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | _OPEN, 0o644)
        if _lock(handle, fcntl.LOCK_EX, path):
            if _is_at(handle, path):
                return handle
            os.close(handle)  # The previous holder has removed the file in the meantime.
            continue
        holder = _read(handle)
        os.close(handle)
        is_elsewhere = holder.host not in ("", socket.gethostname())
        patience = _OTHER_HOST_SECS if is_elsewhere else _SAME_HOST_SECS
        if stopping() or time.monotonic() - start >= patience:
            raise ValueError(_refusal(path.parent, holder))
        if is_elsewhere and not has_said:
            has_said = True
            warn(
                f"{path.parent} is locked by {holder}; waiting up to {patience:g} s in case the host is lost."
            )
        time.sleep(_POLL_SECS)


def _lock(handle: int, kind: int, path: Path) -> bool:
    """Tries to take the lock; also true if the file system does not support locks."""
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if kind == fcntl.LOCK_EX:
            warn(
                f"the file system of {path.parent} does not support locks ({error.strerror}); make sure that "
                "no other learner uses this run directory."
            )
    return True


def _is_at(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return False


def _read(handle: int) -> Holder:
    try:
        words = os.pread(handle, 1024, 0).decode().split()
    except (OSError, UnicodeDecodeError):
        return Holder()
    if len(words) != 2 or not _PROCESS.fullmatch(words[0]) or not words[1].isprintable():
        return Holder()
    return Holder(*words)


def _refusal(logdir: str | Path, holder: Holder) -> str:
    return f"The run directory {logdir} is in use by {holder}; stop it, or choose another --logdir."
