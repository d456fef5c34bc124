"""A process of the run on another node, handled like a child of this process."""

import concurrent.futures
import contextlib
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import ActorUnavailableError, RayError

from seed_rl.cluster.host import Program
from seed_rl.launch.child import Child
from seed_rl.messages import last_line

_LOOK_SECS = 0.25
_CLOSE_SECS = 5.0
_TAIL_BYTES = 65536


class RemoteChild(Child):
    """A child on another node. Only `kill` waits for the node, for a few seconds.

    Attributes:
      lost: whether it ended because its node, or Ray's worker there, was lost.
    """

    def __init__(self, program: Program, place: Callable[[], Any], log: Path | None = None):
        """Starts nothing yet; `place` requests a place from Ray and returns the handle of a new `Host`."""
        super().__init__(program.name, program.command, log)
        self.lost = False
        self._program = program
        self._place = place
        self._host: Any = None
        self._answer: concurrent.futures.Future | None = None
        self._answered = False
        self._next_look = 0.0
        self._code: int | None = None
        self._tail = b""
        self._reports: list[bytes] = []

    def start(self) -> None:
        """Kills what is left of an earlier start, then requests a place and starts the command there."""
        self.kill()
        self.starts += 1
        self._started_at = time.monotonic()
        self._host = self._place()  # If this fails, the exit code of the previous start stays.
        self.lost = self._answered = False
        self._code, self._tail, self._reports = None, b"", []
        self._answer = self._host.start.remote(self._program).future()

    def _poll(self) -> int | None:
        """As `poll`, which is also None while it waits for a place."""
        if self._host is None or self._code is not None:
            return self._code
        if self._answer is None and time.monotonic() >= self._next_look:
            self._answer = self._host.look.remote().future()
        if self._answer is not None and self._answer.done():
            self._take(self._answer)
        return self._code

    @property
    def running(self) -> bool:
        """The same as `Child.running`."""
        return self._host is not None and self.poll() is None

    def terminate(self) -> None:
        """The same as `Child.terminate`."""
        if self.running:
            self._host.terminate.remote()

    def kill(self) -> None:
        """Kills the process and everything it started, and gives up its place."""
        if self._host is None:
            return
        host, self._host, self._answer = self._host, None, None
        if self._answered and not self.lost:
            with contextlib.suppress(RayError):
                ray.get(host.close.remote(), timeout=_CLOSE_SECS)
        ray.kill(host)
        if self._code is None:
            self._code = -signal.SIGKILL

    def reports(self) -> list[bytes]:
        """The same as `Child.reports`, as of the last inspection."""
        return self._reports

    def last_line(self) -> str:
        """The last line of output since the latest start (`messages.last_line`)."""
        return last_line(self._tail)

    def _take(self, answer: concurrent.futures.Future) -> None:
        self._answer, self._next_look = None, time.monotonic() + _LOOK_SECS
        try:
            self._code, output, self._reports = answer.result()
        except ActorUnavailableError:  # Temporary, according to Ray; the next inspection will show.
            return
        except RayError as error:
            self.lost, self._code = True, -signal.SIGKILL
            output = f"seed_rl: Ray lost {self.name}: {reason(error)}.\n".encode()
        self._answered = True
        self._tail = (self._tail + output)[-_TAIL_BYTES:]
        if output:
            self._show(output)

    def _show(self, output: bytes) -> None:
        with contextlib.suppress(OSError):  # The terminal may be gone, or the disk full.
            if self.log is None:
                sys.stdout.write(output.decode(errors="replace"))
                sys.stdout.flush()
                return
            with open(self.log, "ab") as log:
                log.write(output)


def reason(error: RayError) -> str:
    """The reason in an error of Ray's, which has many lines: the last one that is not indented."""
    lines = [line for line in str(error).splitlines() if line.strip() and not line[0].isspace()]
    return lines[-1].rstrip(".") if lines else type(error).__name__
