"""The part of a run on one node: a Ray actor that holds one of the run's processes.

The process is a child of Ray's worker and dies with it, so it also ends with the node's Ray, the job and the
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

_MOST_BYTES = 2**20


@dataclasses.dataclass(frozen=True)
class Program:
    """The process that a host runs.

    Attributes:
      name: the process's name in messages.
      command: a command from `launch.plan`; the node's own Python replaces the one in it.
      environment: additional variables. They contain the token and the key, so they are not shown.
    """

    name: str
    command: list[str]
    environment: dict[str, str] = dataclasses.field(repr=False)


class Place(NamedTuple):
    """Where a process can listen.

    Attributes:
      node: Ray's id of the node.
      host: the node's IP address.
      port: a free port; None if there is none.
    """

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
        """Starts nothing yet."""
        self._child: Child | None = None
        self._output: int | None = None  # A file descriptor.
        self._held: socket.socket | None = None

    def take_port(self, ports: Iterable[int]) -> Place:
        """Finds the first free one of `ports` and, on Linux, holds it until the process listens there.

        The learner binds its port seconds later, once TensorFlow is imported. Until then the port is bound to
        a socket that does not listen: a second socket can be bound to it only if both have SO_REUSEADDR.
        gRPC's sockets have it, but this one gets it only after it is bound, so no other host takes the port.
        """
        host, node = ray.util.get_node_ip_address(), ray.get_runtime_context().get_node_id()
        # The second pass also accepts ports on which only closed connections linger.
        for reuse in (False, True):
            for port in ports:
                if self._hold(host, port, reuse):
                    return Place(node, host, port)
        return Place(node, host, None)

    def _hold(self, host: str, port: int, reuse: bool) -> bool:
        held = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, reuse)
        try:
            held.bind((host, port))
        except OSError:
            held.close()
            return False
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, True)
        if sys.platform == "linux":
            self._held = held
        else:  # On other systems an address can be bound only once.
            held.close()
        return True

    def start(self, program: Program) -> tuple[int | None, bytes]:
        """Starts the process; returns the same as `look`."""
        command = [sys.executable, *program.command[1:]]
        # The file is unlinked right away, so a worker that is killed leaves nothing behind.
        self._output, path = tempfile.mkstemp(prefix="seed_rl_")
        self._child = Child(program.name, command, Path(path), program.environment)
        try:
            self._child.start()
        finally:
            os.unlink(path)
        return self.look()

    def look(self) -> tuple[int | None, bytes]:
        """The exit code (None while it runs or has more output), and the output since the last call."""
        assert self._child is not None and self._output is not None
        code = self._child.poll()
        output = os.read(self._output, _MOST_BYTES)
        return (None if len(output) == _MOST_BYTES else code), output

    def terminate(self) -> None:
        """Sends SIGTERM to the process (Ray blocks SIGINT in everything that its workers start)."""
        if self._child is not None:
            self._child.terminate()

    def close(self) -> None:
        """Kills the process and everything it started, and releases its output and port."""
        if self._child is not None:
            self._child.kill()
        if self._held is not None:
            self._held.close()
        if self._output is not None:
            os.close(self._output)
            self._output = None
