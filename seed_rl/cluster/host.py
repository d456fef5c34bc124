"""The part of a run on one node: a Ray actor that holds one of the run's processes.

The process is a child of Ray's worker and exits with it, so it also ends with the node's Ray, the job and the
launcher.
"""

import dataclasses
import os
import socket
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import ray

from seed_rl.launch.child import Child
from seed_rl.launch.ports import hold_port

_MOST_BYTES = 2**20


@dataclasses.dataclass(frozen=True)
class Program:
    """The process that a host runs.

    Attributes:
      command: from `launch.plan`; the node's own Python replaces the one in it.
      environment: additional variables. They contain the token and the key, so they are not shown.
    """

    name: str
    command: list[str]
    environment: dict[str, str] = dataclasses.field(repr=False)


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
    """A Ray actor, by `ray.remote`. Its calls run one at a time on the main thread, and all are short."""

    def __init__(self) -> None:
        self._child: Child | None = None
        self._output: int | None = None  # A file descriptor.
        self._held: list[socket.socket] = []

    def take_port(self, ports: Iterable[int], num_gateways: int = 0) -> Place:
        """Finds the first free one of `ports` and, on Linux, holds it until the process listens there.

        As many of `ports` that follow it must be free as well as there are gateways.
        """
        host, node = ray.util.get_node_ip_address(), ray.get_runtime_context().get_node_id()
        # The second pass also accepts ports on which only closed connections linger.
        ports = list(ports)
        allowed = frozenset(ports)
        for reuse in (False, True):
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

    def start(self, program: Program) -> tuple[int | None, bytes, list[bytes]]:
        """Starts the process; returns the same as `look`."""
        command = [sys.executable, *program.command[1:]]
        # The file is unlinked right away, so a worker that is killed leaves nothing behind.
        self._output, path = tempfile.mkstemp(prefix="seed_rl_")
        self._child = Child(program.name, command, Path(path), program.environment, plays=True)
        try:
            self._child.start()
        finally:
            os.unlink(path)
        return self.look()

    def look(self) -> tuple[int | None, bytes, list[bytes]]:
        """The exit code (None while it runs or has more output), new output, and all reports."""
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
