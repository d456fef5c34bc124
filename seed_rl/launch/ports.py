"""Ports of this machine that are held for a process until it listens there. No TensorFlow."""

import contextlib
import socket
import sys
from collections.abc import Iterable


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
