"""One learner at a time in a run directory: a lock on a file in it, held for the life of the process.

The lock is flock's: the kernel frees it when the process ends, even by SIGKILL, so a file that is left behind
means nothing by itself. Programs that the process starts do not inherit the descriptor, since Python opens
files with close-on-exec. Nothing here may fork without exec while the lock is held.

On NFS, Linux asks the server for the lock, so that it holds between hosts, unless the directory is mounted
with `nolock` or `local_lock`. A server frees the locks of a host that is lost only when its lease is over
(NFSv4: 90 s by default), so a learner that takes over waits for that long. A bucket that is mounted as a
directory (Cloud Storage FUSE) has locks within one host only: learners on two hosts do not see each other.
"""

import contextlib
import fcntl
import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from seed_rl.messages import warn
from seed_rl.runs.layout import RunDirectory

# What a process of this host that was killed gets to be gone, and what a host gets that may be lost.
_SAME_HOST_SECS = 10.0
_OTHER_HOST_SECS = 100.0
_POLL_SECS = 0.1


class _Holder(NamedTuple):
    """Who holds a lock, as the file says; empty strings where it does not."""

    process: str = ""
    host: str = ""

    def __str__(self) -> str:
        return f"process {self.process} on host {self.host}" if self.host else "another process"


@contextlib.contextmanager
def held(logdir: str | Path, stopping: Callable[[], bool] = lambda: False) -> Iterator[None]:
    """Makes the run directory and keeps other learners out of it.

    Directories that were made here and that nothing was written to are removed again.

    Args:
      logdir: the run directory.
      stopping: ends the wait for the lock when it becomes true.

    Raises:
      ValueError: one sentence; the directory cannot be written, or is in use.
    """
    path = RunDirectory(Path(logdir)).lock
    made = [directory for directory in (path.parent, *path.parent.parents) if not directory.exists()]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = _take(path, stopping)
    except OSError as error:
        raise ValueError(f"--logdir={logdir} cannot be written ({error.strerror}); use another.") from None
    try:
        with contextlib.suppress(OSError):  # On a full disk the lock holds all the same.
            os.ftruncate(handle, 0)
            os.write(handle, f"{os.getpid()} {socket.gethostname()}\n".encode())
            os.fsync(handle)
        yield
    finally:
        with contextlib.suppress(OSError):
            path.unlink()  # Before the lock is given up: afterwards it may be somebody else's.
        os.close(handle)
        with contextlib.suppress(OSError):  # There is something in it.
            for directory in made:
                directory.rmdir()


def check_free(logdir: str | Path) -> None:
    """Refuses a run directory that a learner holds; changes nothing.

    Raises:
      ValueError: one sentence that names who holds it.
    """
    path = RunDirectory(Path(logdir)).lock
    deadline = time.monotonic() + _SAME_HOST_SECS
    while True:
        try:
            handle = os.open(path, os.O_RDONLY)
        except OSError:  # There is no lock, or the directory cannot be used, which others say better.
            return
        try:
            if _lock(handle, fcntl.LOCK_SH, path):
                return
            holder = _read(handle)
        finally:
            os.close(handle)
        if time.monotonic() >= deadline:
            raise ValueError(_refusal(path, holder))
        time.sleep(_POLL_SECS)


def _take(path: Path, stopping: Callable[[], bool]) -> int:
    """Waits for the lock for as long as it may be that of a process that is gone; returns its descriptor."""
    start, has_said = time.monotonic(), False
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        if _lock(handle, fcntl.LOCK_EX, path):
            if _is_at(handle, path):
                return handle
            os.close(handle)  # The holder before has removed the file meanwhile.
            continue
        holder = _read(handle)
        os.close(handle)
        is_elsewhere = holder.host not in ("", socket.gethostname())
        patience = _OTHER_HOST_SECS if is_elsewhere else _SAME_HOST_SECS
        if stopping() or time.monotonic() - start >= patience:
            raise ValueError(_refusal(path, holder))
        if is_elsewhere and not has_said:
            has_said = True
            warn(f"{path.parent} is locked by {holder}; waiting up to {patience:g} s, in case it is lost.")
        time.sleep(_POLL_SECS)


def _lock(handle: int, kind: int, path: Path) -> bool:
    """Whether the lock was got; true where there are none."""
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if kind == fcntl.LOCK_EX:
            warn(
                f"the file system of {path.parent} has no locks ({error.strerror}); see to it that no other "
                "learner uses this run directory."
            )
    return True


def _is_at(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return False


def _read(handle: int) -> _Holder:
    words = os.pread(handle, 1024, 0).decode(errors="replace").split()
    return _Holder(*words) if len(words) == 2 else _Holder()


def _refusal(path: Path, holder: _Holder) -> str:
    return f"The run directory {path.parent} is in use by {holder}; stop it, or choose another --logdir."
