"""Servers that are no learner, such as an ingress or a proxy, and what each answers to an actor's call."""

import contextlib
import os
import socket
import ssl
import struct
import threading

import trustme

_PREFACE_BYTES = 24
_HEADERS, _SETTINGS = 1, 4
_END_OF_STREAM_AND_HEADERS, _ACKNOWLEDGED = 5, 1


def _frame(kind, flags, stream, data=b""):
    return struct.pack(">I", len(data))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + data


def _headers(headers):
    """HPACK, without any compression."""
    return b"".join(b"\0" + b"".join(bytes([len(t)]) + t.encode() for t in pair) for pair in headers.items())


def _http(status):
    return _headers({":status": str(status), "content-type": "text/html"})


def _grpc(code):
    status = {"grpc-status": str(code), "grpc-message": "of another server"}
    return _headers({":status": "200", "content-type": "application/grpc"} | status)


# The bytes, and over what: a plain connection, HTTP/2 (the headers of a response), or TLS.
ANSWERS = (
    {
        f"HTTP {status}": (_http(status), "HTTP/2")
        for status in (200, 302, 400, 401, 403, 404, 429, 500, 502, 503)
    }
    | {f"status {code}": (_grpc(code), "HTTP/2") for code in range(17)}
    | {
        "HTTP/1.1 404": (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "plain"),
        "TLS alert": (b"\x15\x03\x01\x00\x02\x02\x28", "plain"),
        "garbage": (b"\xff" * 64, "plain"),
        "nothing": (b"", "plain"),
        "TLS": (b"", "TLS"),
    }
)


class Stranger:
    """Listens at unix:PATH, and answers everything with the same.

    Attributes:
      calls: answers so far.
    """

    def __init__(self, address, answer):
        """Starts."""
        self.calls, (self._answer, self._over) = 0, answer
        self._path = address.removeprefix("unix:")
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(self._path)
        self._socket.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """Listens no longer; connections that are open stay so, as a proxy's may."""
        os.unlink(self._path)
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with connection, contextlib.suppress(OSError, EOFError), connection.makefile("rb") as incoming:
            if self._over == "TLS":
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                trustme.CA().issue_cert("localhost").configure_cert(context)
                connection = context.wrap_socket(connection, server_side=True)
            if self._over != "HTTP/2":
                connection.sendall(self._answer)
                self.calls += 1
                return
            _read(incoming, _PREFACE_BYTES)
            connection.sendall(_frame(_SETTINGS, 0, 0))
            while True:
                size, kind, flags, stream = struct.unpack(">IBBI", b"\0" + _read(incoming, 9))
                _read(incoming, size)
                if kind == _SETTINGS and not flags & _ACKNOWLEDGED:
                    connection.sendall(_frame(_SETTINGS, _ACKNOWLEDGED, 0))
                elif kind == _HEADERS:
                    connection.sendall(_frame(_HEADERS, _END_OF_STREAM_AND_HEADERS, stream, self._answer))
                    self.calls += 1


def _read(file, size):
    data = file.read(size)
    if len(data) < size:
        raise EOFError
    return data
