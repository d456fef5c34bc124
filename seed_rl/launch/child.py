"""A child process in its own session, tied to the lifetime of this process."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from seed_rl.launch import tether
from seed_rl.messages import last_line

# Limits an environment's math libraries to one thread, because an actor is one of many processes.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
LEARNER_ENV = {"PYTHONUNBUFFERED": "1"}
ACTOR_ENV = {**ONE_THREAD, **LEARNER_ENV}

_TAIL_BYTES = 65536


class Child:
    """A command that can be started many times, but only once at a time.

    It has its own session, so the terminal's Ctrl-C does not reach it, and it can be killed together with
    everything it started.

    Attributes:
      name: its name in messages.
      log: the file that its output is appended to; None: it shares this process's output.
      starts: how many times it was started.
    """

    def __init__(
        self, name: str, command: Sequence[str], log: Path | None = None, env: Mapping[str, str] | None = None
    ):
        self.name = name
        self.log = log
        self.starts = 0
        self._command = [sys.executable, tether.__file__, str(os.getpid()), *command]
        self._env = None if env is None else {**os.environ, **env}
        self._process: subprocess.Popen | None = None
        self._log_start = 0
        self._started_at = 0.0

    def start(self) -> None:
        """Kills what is left of an earlier start, then starts the command; the log is continued."""
        self.kill()
        self.starts += 1
        self._started_at = time.monotonic()
        if self.log is None:
            self._process = self._popen(None)
            return
        with open(self.log, "ab") as output:
            self._log_start = output.tell()
            self._process = self._popen(output)

    def _popen(self, output: object) -> subprocess.Popen:
        return subprocess.Popen(
            self._command,
            stdin=subprocess.DEVNULL,
            stdout=output,  # type: ignore[call-overload]
            stderr=None if output is None else subprocess.STDOUT,
            env=self._env,
            start_new_session=True,
        )

    @property
    def pid(self) -> int | None:
        """Process id of the latest start; None before the first."""
        return self._process.pid if self._process else None

    @property
    def seconds(self) -> float:
        """Seconds since the latest start."""
        return time.monotonic() - self._started_at

    def poll(self) -> int | None:
        """The exit code (-N if signal N ended it); None while it runs.

        Raises:
          RuntimeError: it was never started.
        """
        if self._process is None:
            raise RuntimeError(f"{self.name} was never started.")
        return self._process.poll()

    @property
    def running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def terminate(self) -> None:
        """Sends SIGTERM to the process itself, but not to the processes it started."""
        if self.running:
            assert self._process is not None
            self._process.terminate()

    def kill(self) -> None:
        """Kills the process and everything it started; returns when the process is gone."""
        if self._process is None:
            return
        # These errors mean that nothing is left to kill (on macOS: only a zombie).
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

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
