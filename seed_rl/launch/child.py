"""A child process in a session of its own, tied to this process's life."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from seed_rl.launch import tether

# The math libraries of an environment get one thread: an actor is one of many processes.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
ACTOR_ENV = {**ONE_THREAD, "PYTHONUNBUFFERED": "1"}

_TAIL_BYTES = 65536


class Child:
    """One command, started once or many times; never two of it at once.

    Its own session keeps the terminal's Ctrl-C away from it, and lets it be killed with all it started.

    Attributes:
      name: what it is called in messages.
      log: the file that its output is appended to; None: this process's own output.
      starts: how often it was started.
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
        """Starts the command; kills what is left of an earlier start; the log continues where it ended."""
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
        """The exit code (negative: minus the signal that ended it); None while it runs.

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
        """Asks it to end (SIGTERM), itself only."""
        if self.running:
            assert self._process is not None
            self._process.terminate()

    def kill(self) -> None:
        """Kills it and whatever it started and left behind; returns when it is gone."""
        if self._process is None:
            return
        # The errors say that nothing is left of it (macOS: only a zombie).
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def last_line(self) -> str:
        """The last line that the latest start wrote to its log; '' if there is none, or it cannot be read."""
        if self.log is None:
            return ""
        try:
            with open(self.log, "rb") as log:
                end = log.seek(0, os.SEEK_END)
                log.seek(max(self._log_start, end - _TAIL_BYTES))
                lines = log.read().decode(errors="replace").split("\n")
        except OSError:
            return ""
        return next((line.strip() for line in reversed(lines) if line.strip()), "")
