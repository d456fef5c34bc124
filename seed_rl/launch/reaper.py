"""Reaper: runs a command that exits with the parent of this process, on Linux: `python reaper.py NAME`.

It stays between the two. When the command ends, or the parent does, even by SIGKILL, it kills all that the
command has started, in other sessions and as daemons too, and ends as the command did. A process group or
PR_SET_PDEATHSIG alone would miss those. The variable `ORDER` has the parent's process id, the command, a
directory to remove if the parent is gone (or None), and the descriptor of a socket, which gets the command's
process id as a line and is inherited. This is a script, and imports nothing but the standard library.
"""

import contextlib
import ctypes
import json
import os
import resource
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ORDER = "SEED_RL_REAPER_ORDER"

# The signal to end everything at once; the kernel sends it when the parent is gone.
END_ALL = signal.SIGRTMIN if sys.platform == "linux" else signal.SIGUSR1

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_HANDLED = (*_PASSED_ON, END_ALL, signal.SIGCHLD)

# Processes that hang in the kernel are left after this.
_MOST_KILL_SECS = 10.0
_PAUSE_SECS = 0.002


def main() -> None:
    """Ties the process to its parent and runs the command."""
    parent, command, private, link = json.loads(os.environ.pop(ORDER))
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # If it is ignored, the command's status is lost.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _HANDLED)
    _prctl(_PR_SET_PDEATHSIG, END_ALL)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    if os.getppid() != parent:
        sys.exit(1)  # The parent died before this took effect.
    reaper = os.getpid()
    pid = os.fork()
    if not pid:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == reaper:
            with contextlib.suppress(OSError):  # The parent has just ended.
                os.write(link, b"%d\n" % os.getpid())
            os.execvp(command[0], command)
        os._exit(1)
    os.close(link)
    status = _kill_descendants(pid, _watch(pid))
    if private and os.getppid() != parent:
        shutil.rmtree(private, ignore_errors=True)
    _end_like(status)


def _watch(command: int) -> int | None:
    """Waits for the end of the command and returns its status; None if all are to be killed."""
    while True:
        number = signal.sigwait(_HANDLED)
        if number == END_ALL:
            return None
        if number in _PASSED_ON:  # It is not reaped yet, so its id is nobody else's.
            os.kill(command, number)
        for pid, status in _reaped():
            if pid == command:
                return status


def _reaped() -> Iterator[tuple[int, int]]:
    """The children that have ended, also adopted ones, with their status; ends at one that runs."""
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            yield ended


def _kill_descendants(command: int, status: int | None) -> int:
    """Kills all children until there are none: this process adopts those of a child that has ended.

    A reaper among them, which has lost its parent, kills its own and removes its directories. Returns the
    command's status, which may be known already.
    """
    deadline = time.monotonic() + _MOST_KILL_SECS
    while (children := list(_children())) and time.monotonic() < deadline:
        for pid in children:
            patient = time.monotonic() < deadline - _MOST_KILL_SECS / 2
            with contextlib.suppress(OSError):  # It has just ended.
                os.kill(pid, END_ALL if patient and _is_reaper(pid) else signal.SIGKILL)
        time.sleep(_PAUSE_SECS)
        status = dict(_reaped()).get(command, status)
    return signal.SIGKILL if status is None else status


def _children() -> Iterator[int]:
    """The process ids of all children of this process."""
    mine = str(os.getpid())
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # It has just ended.
            # NAME may contain anything: PID (NAME) STATE PARENT …
            if stat.read_text(errors="replace").rpartition(")")[2].split()[1] == mine:
                yield int(stat.parent.name)


def _is_reaper(pid: int) -> bool:
    return os.fsencode(__file__) in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")


def _end_like(status: int) -> None:
    """Ends this process with the status of another one."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # The command has left its own.
        with contextlib.suppress(OSError):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        os.kill(os.getpid(), number)
    os._exit(os.waitstatus_to_exitcode(status))


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value)


if __name__ == "__main__":
    main()
