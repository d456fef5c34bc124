"""TCP ports for servers that tests start in other processes."""

import contextlib
import random
import socket

import psutil

# Each file that needs ports has its own range, because tests in different files may run at the same time. All
# are below those that the system hands out: one of its choice may be another's before a server has started.
CLUSTER = range(21000, 23000)
GATEWAYS = range(23000, 25000)
HOSTS = range(25000, 26500)
VERTEX = range(26500, 28500)
LAUNCH = range(31500, 32700)
WEB = range(28500, 30000)
GARBAGE = range(19500, 21000)

_TRIES = 100


def free_ports(count, among):
    """That many ports in a row that nothing is bound to; drawn, as others may be testing as well."""
    for _ in range(_TRIES):
        first = random.SystemRandom().randrange(among.start, among.stop - count)
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            for port in range(first, first + count):
                stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return range(first, first + count)
    raise AssertionError("no free ports")


def outer_addresses():
    """This machine's addresses that others can reach."""
    found = [
        a.address
        for addresses in psutil.net_if_addrs().values()
        for a in addresses
        if a.family in (socket.AF_INET, socket.AF_INET6)
    ]
    return [a for a in found if not a.startswith(("127.", "fe80")) and a != "::1"]


def is_reached(host, port):
    """Whether a server at that address accepts a connection."""
    try:
        socket.create_connection((host, port), 0.3).close()
    except OSError:
        return False
    return True
