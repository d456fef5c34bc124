"""Addresses that a process holds: a unix socket's path, and ports until it listens there. No TensorFlow."""

import contextlib
import fcntl
import os
import socket
import stat
import sys
from collections.abc import Iterable
from urllib.parse import unquote

_SCHEME = "unix:"
_PROBE_SECS = 1.0

_IN_USE = "another learner listens there; stop that one, or give this one another --server_address"


class SocketPath:
    """Holds the path of a unix socket from before the server listens until after it has stopped.

    gRPC removes any socket at its path, before it listens there and again when it stops. So it gets its own
    path beside the real one, and its socket is then renamed. A lock on a file beside the socket decides
    between two servers that start at the same time; the system releases it when the process ends.

    Attributes:
      path: the path.
      grpc_address: where the server must listen.
    """

    def __init__(self, address: str):
        """Takes the path of `address` (unix:PATH).

        Raises:
          OSError: a server listens there, or the path exists and is not a socket.
        """
        self.path = unquote(address.removeprefix(_SCHEME))  # gRPC reads addresses as URIs.
        self.grpc_address = f"{address}~"
        self._inode: int | None = None
        self._lock_path = f"{self.path}.lock"
        self._lock = _lock(self._lock_path)
        try:
            _require_nobody(self.path)
        except OSError:
            self.release()
            raise

    def publish(self) -> None:
        """Renames the socket that the server now listens on, replacing any that nobody listens on."""
        os.rename(f"{self.path}~", self.path)
        self._inode = os.stat(self.path).st_ino

    def release(self) -> None:
        """Removes the server's socket, if it is still there, and frees the path for others."""
        with contextlib.suppress(FileNotFoundError):
            if self._inode is not None and os.stat(self.path).st_ino == self._inode:
                os.unlink(self.path)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._lock_path)
        os.close(self._lock)


def is_socket_file(address: str) -> bool:
    """Whether a gRPC address is that of a unix socket in the file system."""
    return address.startswith(_SCHEME)


def _lock(path: str) -> int:
    """Opens and locks a file, which is created if there is none; returns its descriptor."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.stat(path), os.fstat(descriptor)):
                    return descriptor
        except BlockingIOError:
            os.close(descriptor)
            raise OSError(_IN_USE) from None
        except OSError:
            os.close(descriptor)
            raise
        os.close(descriptor)  # Its holder has removed the file since it was opened.


def _require_nobody(path: str) -> None:
    """Raises OSError if a process that does not use the lock listens there."""
    if not os.path.exists(path):
        return
    if not stat.S_ISSOCK(os.stat(path).st_mode):
        raise OSError(f"{path} exists and is not a socket")
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(_PROBE_SECS)
        try:
            probe.connect(path)
        except (ConnectionRefusedError, FileNotFoundError):
            return  # Left behind by a process that was killed.
        except (BlockingIOError, TimeoutError):
            pass  # Its queue of waiting connections is full.
    raise OSError(_IN_USE)


def hold_port(host: str, port: int, reuse: bool) -> socket.socket | None:
    """Finds out whether a port is free and, on Linux, holds it until the socket is closed.

    The port is bound to a socket that does not listen: a second socket can be bound to it only if both have
    SO_REUSEADDR. gRPC's sockets have it; this one gets it only after it is bound, so nobody else can hold the
    port. Other systems let an address be bound only once, so there the socket is closed.

    `host` is an IP address of this machine. With `reuse`, a port is accepted that another one holds, or on
    which closed connections linger. Returns None if the port is taken.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with contextlib.ExitStack() as at_failure, contextlib.suppress(OSError):
        held = at_failure.enter_context(socket.socket(family))
        if family == socket.AF_INET6:
            held.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, reuse)
        held.bind((host, port))
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if sys.platform == "linux":
            at_failure.pop_all()
        return held
    return None


def hold_addresses(addresses: Iterable[str]) -> contextlib.ExitStack:
    """Holds the ports of gateways' addresses until it is closed; raises ValueError if one is taken."""
    with contextlib.ExitStack() as held:
        for address in addresses:
            if address.startswith("unix"):
                continue
            host, _, port = address.rpartition(":")
            found = hold_port(host.strip("[]"), int(port), reuse=True)
            if found is None:
                raise ValueError(
                    f"Cannot listen on {address}, which is a gateway's; give another --server_address, whose "
                    "port --num_gateways free ones follow."
                )
            held.enter_context(found)
        return held.pop_all()
