"""A process of the run on another node: held there by a Ray actor, and handled here like a child."""

import concurrent.futures
import contextlib
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import ray
from ray.exceptions import ActorUnavailableError, RayError

from seed_rl.launch.child import Child
from seed_rl.messages import last_line
from seed_rl.serving.sockets import hold_port

_MOST_BYTES = 2**20


# The exit code (None while it runs or has more output), new output, and all reports.
Look = tuple[int | None, bytes, list[bytes]]


class Place(NamedTuple):
    """Location that a process can listen at: Ray's id of a node, its IP address, and a free port or None."""

    node: str
    host: str
    port: int | None

    @property
    def address(self) -> str:
        """HOST:PORT."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Host:
    """A Ray actor, by `ray.remote`. Its calls run one at a time on the main thread, and all are short.

    The process is a child of Ray's worker and exits with it, so it also ends with the node's Ray, the job and
    the launcher.
    """

    def __init__(self) -> None:
        self._child: Child | None = None
        self._output: int | None = None  # A file descriptor.
        self._held: list[socket.socket] = []

    def take_port(self, ports: Iterable[int], num_gateways: int = 0) -> Place:
        """Finds the first free one of `ports` and, on Linux, holds it until the process listens there.

        As many of `ports` that follow it must be free as well as there are gateways.
        """
        host, node = ray.util.get_node_ip_address(), ray.get_runtime_context().get_node_id()
        ports = list(ports)
        allowed = frozenset(ports)
        for reuse in (False, True):  # Also ports on which only closed connections linger.
            for port in ports:
                wanted = range(port, port + 1 + num_gateways)
                if allowed.issuperset(wanted) and self._hold(host, wanted, reuse):
                    return Place(node, host, port)
        return Place(node, host, None)

    def _hold(self, host: str, ports: Iterable[int], reuse: bool) -> bool:
        """Holds all of these ports, or none."""
        for port in ports:
            held = hold_port(host, port, reuse)
            if held is None:
                self._let_go()
                return False
            self._held.append(held)
        return True

    def _let_go(self) -> None:
        for held in self._held:
            held.close()
        self._held.clear()

    def start(self, name: str, command: Sequence[str], env: dict[str, str]) -> Look:
        """Starts the process, by this node's own Python; returns the same as `look`."""
        # The file is unlinked right away, so a worker that is killed leaves nothing behind.
        self._output, path = tempfile.mkstemp(prefix="seed_rl_")
        self._child = Child(name, [sys.executable, *command[1:]], Path(path), env, plays=True)
        try:
            self._child.start()
        finally:
            os.unlink(path)
        return self.look()

    def look(self) -> Look:
        """The state of the process."""
        assert self._child is not None and self._output is not None
        code = self._child.poll()
        output = os.read(self._output, _MOST_BYTES)
        return (None if len(output) == _MOST_BYTES else code), output, self._child.reports()

    def terminate(self) -> None:
        """Sends SIGTERM to the process (Ray blocks SIGINT in everything that its workers start)."""
        if self._child is not None:
            self._child.terminate()

    def close(self) -> None:
        """Kills the process and everything it started, and releases its output and ports."""
        if self._child is not None:
            self._child.kill()
        self._let_go()
        if self._output is not None:
            os.close(self._output)
            self._output = None


_LOOK_SECS = 0.25
_CLOSE_SECS = 5.0
_TAIL_BYTES = 65536


class RemoteChild(Child):
    """A child on another node. Only `kill` waits for the node, for a few seconds.

    Attributes:
      lost: whether it ended because its node, or Ray's worker there, was lost.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        env: dict[str, str],
        place: Callable[[], Any],
        log: Path | None = None,
    ):
        """Starts nothing yet.

        `command` is from `launch.plan`, `env` are additional variables, and `place` requests a place from Ray
        and returns the handle of a new `Host`.
        """
        super().__init__(name, command, log)
        self.lost = False
        self._start_arguments = (name, list(command), env)
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
        self._started_at = time.monotonic()
        self._host = self._place()  # If this fails, the exit code of the previous start stays.
        self.lost = self._answered = False
        self._code, self._tail, self._reports = None, b"", []
        self._answer = self._host.start.remote(*self._start_arguments).future()

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
