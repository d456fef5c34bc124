"""A child process in its own session, tied to the lifetime of this process; the limit on open files."""

import contextlib
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from seed_rl.launch import reaper
from seed_rl.messages import COMPLETE, LAUNCHER_LINK, REFUSED, last_line

# Limits an environment's math libraries to one thread, because an actor is one of many processes.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
LEARNER_ENV = {"PYTHONUNBUFFERED": "1"}
ACTOR_ENV = {**ONE_THREAD, **LEARNER_ENV}

_TAIL_BYTES = 65536

# Exit codes of learners and actors that count only with a report: the user's code may end with them, too.
_REPORTED = {0: COMPLETE, 2: REFUSED}
_UNREPORTED_CODE = 1

# Enough for more actors than one learner can serve. Containers often allow a billion, and some libraries
# spend time on every descriptor that is allowed.
_ENOUGH_DESCRIPTORS = 1 << 16

# With fewer, libraries of a learner or gateway end its process by a signal.
_FEWEST_DESCRIPTORS = 64

# A reaper that does not end by then was stopped.
_MOST_KILL_SECS = 15.0
_KILL_POLL_SECS = 0.002


class Child:
    """A command that can be started many times, but only once at a time.

    It has its own session, so the terminal's Ctrl-C does not reach it, and it can be killed together with
    everything it started. On Linux all of that exits with this process or the command (`launch.reaper`).

    Attributes:
      name: its name in messages.
      log: the file on this machine that its output is appended to; None: it shares this process's output.
      plays: whether it is a learner or an actor, whose exit codes 0 and 2 count only with their reports.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log: Path | None = None,
        env: Mapping[str, str] | None = None,
        private: Path | None = None,
        plays: bool = False,
    ):
        """Starts nothing yet.

        `env` are environment variables that it has besides those of this process. `private` is a directory
        that is removed if this process is killed; else it is left to this process.
        """
        self.name = name
        self.log = log
        self.plays = plays
        self._command, self._private = list(command), private and str(private)
        self._env = {**os.environ, **(env or {})}
        self._process: subprocess.Popen | None = None
        self._link: socket.socket | None = None
        self._received = bytearray()  # Lines: the process id, then what the command reports.
        self._log_start = 0
        self._started_at = 0.0

    def start(self) -> None:
        """Kills what is left of an earlier start, then starts the command; the log is continued."""
        self.kill()
        self._started_at = time.monotonic()
        if self._link is not None:
            self._link.close()
        self._received.clear()
        self._link, theirs = socket.socketpair()
        link, command = theirs.fileno(), self._command
        env = {**self._env, LAUNCHER_LINK: f"{link}:{os.fstat(link).st_ino}"}
        if sys.platform == "linux":
            # The command is on the command line of its own process only.
            env[reaper.ORDER] = json.dumps([os.getpid(), command, self._private, link])
            command = [sys.executable, "-I", "-S", reaper.__file__, self.name]
        with theirs, open(self.log, "ab") if self.log else contextlib.nullcontext() as output:
            self._log_start = output.tell() if output else 0
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output and subprocess.STDOUT,
                env=env,
                pass_fds=[link],
                start_new_session=True,
            )
            if sys.platform != "linux":
                theirs.send(b"%d\n" % self._process.pid)

    @property
    def pid(self) -> int | None:
        """Process id of the command at its latest start; None before the first."""
        if b"\n" not in self._received:
            self._receive(0)
        number, newline, _ = self._received.partition(b"\n")
        return int(number) if newline else None

    def reports(self) -> list[bytes]:
        """The lines that the command has sent since its latest start (`messages.report_to_launcher`)."""
        self._receive(socket.MSG_DONTWAIT)
        return bytes(self._received).split(b"\n")[1:-1]

    def _receive(self, flags: int) -> None:
        with contextlib.suppress(OSError):  # There is no more for now, or the other end is gone.
            while self._link is not None and (data := self._link.recv(_TAIL_BYTES, flags)):
                self._received += data
                flags = socket.MSG_DONTWAIT

    @property
    def seconds(self) -> float:
        """Seconds since the latest start."""
        return time.monotonic() - self._started_at

    def reported(self, word: bytes) -> str | None:
        """The rest of the first line with this first word since the latest start; None: there is none."""
        found = (line.partition(b" ") for line in self.reports())
        return next((rest.decode() for first, _, rest in found if first == word), None)

    def poll(self) -> int | None:
        """The exit code (-N if signal N ended it); None while it runs.

        It is 1 for one that `ended_early`.

        Raises:
          RuntimeError: it was never started.
        """
        return _UNREPORTED_CODE if self.ended_early else self._poll()

    @property
    def ended_early(self) -> bool:
        """Whether it is a learner or an actor that ended with 0 or 2 without a report of ours."""
        code = self._poll()
        return self.plays and code in _REPORTED and self.reported(_REPORTED[code]) is None

    def _poll(self) -> int | None:
        if self._process is None:
            raise RuntimeError(f"{self.name} was never started.")
        if self._process.returncode is not None or not hasattr(os, "waitid"):
            return self._process.poll()
        # It is not reaped before `kill`, so that no other process can get its id, which is its group's.
        ended = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is None:
            return None
        return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status

    @property
    def running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._process is not None and self.poll() is None

    def terminate(self) -> None:
        """Sends SIGTERM to the process itself, but not to the processes it started."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kills the process and everything it started; returns when the process is gone."""
        if self._process is None or self._process.returncode is not None:
            return
        if sys.platform == "linux":
            self._signal(reaper.END_ALL)
            deadline = time.monotonic() + _MOST_KILL_SECS
            while self.running and time.monotonic() < deadline:
                time.sleep(_KILL_POLL_SECS)
        # The rest, if it was stopped or killed itself. These errors mean that nothing is left (on macOS: only
        # a zombie).
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _signal(self, number: int) -> None:
        if self.running:
            assert self._process is not None
            os.kill(self._process.pid, number)

    def last_line(self) -> str:
        """The last line in the log since the latest start (`messages.last_line`); '' if it cannot be read."""
        if self.log is None:
            return ""
        try:
            with open(self.log, "rb") as log:
                end = log.seek(0, os.SEEK_END)
                log.seek(max(self._log_start, end - _TAIL_BYTES))
                return last_line(log.read())
        except OSError:
            return ""


def raise_descriptor_limit() -> None:
    """Raises this process's limit on file descriptors as far as it can without privileges, up to 65,536.

    A learner needs one per actor, and many systems allow 1,024 unless a process requests more.

    Raises:
      ValueError: it may have too few for a learner or gateway without actors.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return
    wanted = _ENOUGH_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH_DESCRIPTORS)
    if wanted < _FEWEST_DESCRIPTORS:
        raise ValueError(
            f"This process may have {wanted} open files; raise its limit (ulimit -n) to at least "
            f"{_FEWEST_DESCRIPTORS}, and by two for each actor."
        )
    if wanted > soft:
        with contextlib.suppress(ValueError, OSError):  # macOS allows fewer than it reports.
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
