"""The port of each learner host for TensorFlow: held until it listens, and tried. Imports no TensorFlow."""

import socket
from collections.abc import Sequence

from seed_rl.wire.hosts import LearnerHosts


def listen(machine: str) -> socket.socket:
    """A socket that listens on a free port, which is TensorFlow's once it is closed."""
    host = machine.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host if host in ("localhost", "127.0.0.1", "::1") else "", 0), family=family)


def unreached(hosts: LearnerHosts, addresses: Sequence[str], seconds: float) -> str:
    """Tries to reach the ports of all hosts, HOST:PORT each; returns a sentence if one cannot be reached."""
    for index, address in enumerate(addresses):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), seconds).close()
        except OSError as error:
            return (
                f"{hosts.name(hosts.index)} cannot reach {hosts.name(index)} at {address} ({error}); learner "
                "hosts need all ports open among them."
            )
    return ""
