"""TCP ports for servers that tests start in other processes."""

import contextlib
import socket


def free_ports(count, among=range(21000, 26000)):
    """That many ports in a row that nothing is bound to, below those that the system hands out.

    Tests in different files may run at the same time: each file that needs ports has its own range.
    """
    for first in range(among.start, among.stop - count, 7):
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            for port in range(first, first + count):
                stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return range(first, first + count)
    raise AssertionError("no free ports")
