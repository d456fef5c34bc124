"""Keeps other machines away from a port that TensorFlow opens on all interfaces. Imports no TensorFlow.

TensorFlow's server always listens on the wildcard address, without credentials. Linux lets several sockets of
one user listen on a port together (SO_REUSEPORT), and a filter choose which of them a connection gets. Ours
comes first, with a filter that gives TensorFlow's the connections to a loopback address, and drops all others
itself. So there is no moment at which TensorFlow listens without the filter.
"""

import ctypes
import os
import socket
import struct

_SO_ATTACH_FILTER = 26
_SO_ATTACH_REUSEPORT_CBPF = 51

# TensorFlow's variable: without it, its server would refuse a port that another socket has.
_REUSE_PORT = "TF_GRPC_REUSE_PORT"

# NCCL's: the interface of its own connections, which are not encrypted either.
_NCCL_INTERFACE = "NCCL_SOCKET_IFNAME"

_HEADER = 0xFFF00000  # Offset at which the kernel maps a packet's IP header (SKF_NET_OFF).


# Programs of classic BPF: (code, instructions to skip if a comparison is true, if it is false, operand).
_LOAD_BYTE, _LOAD_WORD, _AND, _EQUALS, _RETURN = 0x30, 0x20, 0x54, 0x15, 0x06

# Socket 1, TensorFlow's, for connections to 127.0.0.0/8 and ::1; else socket 0, ours.
_CHOOSE = (
    (_LOAD_BYTE, 0, 0, _HEADER),  # The version is in the upper half.
    (_AND, 0, 0, 0xF0),
    (_EQUALS, 0, 2, 0x40),  # IPv4, or on to IPv6.
    (_LOAD_BYTE, 0, 0, _HEADER + 16),
    (_EQUALS, 8, 9, 127),
    (_LOAD_WORD, 0, 0, _HEADER + 24),
    (_EQUALS, 0, 7, 0),
    (_LOAD_WORD, 0, 0, _HEADER + 28),
    (_EQUALS, 0, 5, 0),
    (_LOAD_WORD, 0, 0, _HEADER + 32),
    (_EQUALS, 0, 3, 0),
    (_LOAD_WORD, 0, 0, _HEADER + 36),
    (_EQUALS, 0, 1, 1),
    (_RETURN, 0, 0, 1),
    (_RETURN, 0, 0, 0),
)
_DROP = ((_RETURN, 0, 0, 0),)


def keep_to_loopback(port: int) -> socket.socket:
    """Keeps others away from a port on which TensorFlow will listen, for as long as the socket is open.

    Must come before TensorFlow opens the port, and needs Linux. It also keeps NCCL to the loopback device.

    Raises:
      OSError: the port is taken, or the kernel does not allow it.
    """
    os.environ[_REUSE_PORT] = "true"
    os.environ[_NCCL_INTERFACE] = "lo"
    held = _wildcard_socket()
    try:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        held.bind(("", port))
        _attach(held, _SO_ATTACH_REUSEPORT_CBPF, _CHOOSE)
        _attach(held, _SO_ATTACH_FILTER, _DROP)
        held.listen(1)
    except OSError:
        held.close()
        raise
    return held


def _wildcard_socket() -> socket.socket:
    """A socket of the kind that gRPC uses to listen: for IPv6 and IPv4, if the machine has IPv6."""
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return socket.socket(socket.AF_INET)
    held = socket.socket(socket.AF_INET6)
    held.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    return held


def _attach(held: socket.socket, option: int, program: tuple[tuple[int, int, int, int], ...]) -> None:
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in program))
    held.setsockopt(socket.SOL_SOCKET, option, struct.pack("@HP", len(program), ctypes.addressof(code)))
