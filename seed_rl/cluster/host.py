"""What runs on a node: a Ray actor that holds one process of the run.

The process is a child of Ray's worker and dies with it, and therefore with the node's Ray, the job and the
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
    """What a host is to run.

    Attributes:
      name: of the process, in messages.
      command: as `launch.plan` makes it; the Python is the node's own.
      environment: additional variables. They hold the token and the key, and so are not shown.
    """

    name: str
    command: list[str]
    environment: dict[str, str] = dataclasses.field(repr=False)


class Place(NamedTuple):
    """Where a process can listen.

    Attributes:
      node: Ray's id of the node.
      host: the node's IP address.
      port: a free one; None if there is none.
    """

    node: str
    host: str
    port: int | None

    @property
    def address(self) -> str:
        """HOST:PORT."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Host:
    """Becomes a Ray actor with `ray.remote`. One call at a time, each of them short, on the main thread."""

    def __init__(self) -> None:
        """Holds nothing yet."""
        self._child: Child | None = None
        self._output: int | None = None  # A file descriptor.
        self._held: socket.socket | None = None

    def take_port(self, ports: Iterable[int]) -> Place:
        """Takes the first of `ports` that is free, and holds it on Linux until the process listens there.

        A learner binds its port seconds after this, once TensorFlow is imported. Until then the port is bound
        to a socket that does not listen: a second socket may be bound to it only if both have SO_REUSEADDR.
        gRPC's have it, but this one gets it only after it was bound, so no other host takes the same port.
        """
        host, node = ray.util.get_node_ip_address(), ray.get_runtime_context().get_node_id()
        # The second time also those on which only closed connections linger.
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
        else:  # Elsewhere an address is bound once.
            held.close()
        return True

    def start(self, program: Program) -> tuple[int | None, bytes]:
        """Starts the process; returns as `look` does."""
        command = [sys.executable, *program.command[1:]]
        # The file loses its name at once: a worker that is killed leaves nothing behind.
        self._output, path = tempfile.mkstemp(prefix="seed_rl_")
        self._child = Child(program.name, command, Path(path), program.environment)
        try:
            self._child.start()
        finally:
            os.unlink(path)
        return self.look()

    def look(self) -> tuple[int | None, bytes]:
        """The exit code (None while it runs or has more output), and the output since the last look."""
        assert self._child is not None and self._output is not None
        code = self._child.poll()
        output = os.read(self._output, _MOST_BYTES)
        return (None if len(output) == _MOST_BYTES else code), output

    def terminate(self) -> None:
        """Asks the process to end (SIGTERM; Ray blocks SIGINT in whatever its workers start)."""
        if self._child is not None:
            self._child.terminate()

    def close(self) -> None:
        """Kills the process and whatever it started, and lets go of its output and port."""
        if self._child is not None:
            self._child.kill()
        if self._held is not None:
            self._held.close()
        if self._output is not None:
            os.close(self._output)
            self._output = None
