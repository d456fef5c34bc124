"""What runs on a node: a Ray actor that holds one process of the run.

The process is a child of Ray's worker and dies with it, and so with the node's Ray, the job and the launcher.
"""

import dataclasses
import socket
import sys
import tempfile
from pathlib import Path

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


class Host:
    """Becomes a Ray actor with `ray.remote`. One call at a time, each of them short, on the main thread."""

    def __init__(self) -> None:
        """Holds nothing yet."""
        self._directory = tempfile.TemporaryDirectory(prefix="seed_rl_")
        self._output = Path(self._directory.name) / "output"
        self._child: Child | None = None
        self._read = 0

    def free_address(self) -> str:
        """HOST:PORT of this node that nobody listens on now."""
        host = ray.util.get_node_ip_address()
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.socket(family) as probe:
            probe.bind((host, 0))
            port = probe.getsockname()[1]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def start(self, program: Program) -> tuple[int | None, bytes]:
        """Starts the process; returns as `look` does."""
        command = [sys.executable, *program.command[1:]]
        self._child = Child(program.name, command, self._output, program.environment)
        self._child.start()
        return self.look()

    def look(self) -> tuple[int | None, bytes]:
        """The exit code (None while it runs or has more to say), and what it said since the last look."""
        assert self._child is not None
        code = self._child.poll()
        with open(self._output, "rb") as output:
            output.seek(self._read)
            said = output.read(_MOST_BYTES)
        self._read += len(said)
        return (None if len(said) == _MOST_BYTES else code), said

    def terminate(self) -> None:
        """Asks the process to end (SIGTERM; Ray blocks SIGINT in whatever its workers start)."""
        if self._child is not None:
            self._child.terminate()

    def close(self) -> None:
        """Kills the process and whatever it started, and removes its output."""
        if self._child is not None:
            self._child.kill()
        self._directory.cleanup()
