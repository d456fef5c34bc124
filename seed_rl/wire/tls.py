"""Probe for connections that can never work with this end's TLS; gRPC only tries again. No TensorFlow."""

import asyncio
import contextlib
import socket
import ssl
import time
from urllib.parse import unquote

import grpc

from seed_rl.wire.security import Security

_POLL_SECS = 0.2
_PAUSE_SECS = 2.0
_TRY_SECS = 5.0

# A learner that does not accept a certificate closes the connection, as does one that is about to end.
_CLOSED_TIMES = 3


async def why_unusable(channel: grpc.aio.Channel, address: str, security: Security) -> str:
    """Waits until something listens at the address that this TLS can never connect to; returns a sentence.

    As long as the channel to it does not fail, nothing is tried.
    """
    probe = TlsProbe(address, security)
    while True:
        await asyncio.sleep(_POLL_SECS)
        if channel.get_state() != grpc.ChannelConnectivity.TRANSIENT_FAILURE:
            continue
        if problem := await asyncio.to_thread(probe.problem):
            return problem


class TlsProbe:
    """Connects to an address (unix:PATH or HOST:PORT) to find out whether this end's TLS ever can."""

    def __init__(self, address: str, security: Security):
        """Prepares; nothing is sent yet."""
        self._address, self._security = address, security
        self._closed_times, self._next = 0, 0.0

    def problem(self) -> str | None:
        """Reason that TLS can never connect, as a sentence; None: unknown, or the last try was just now."""
        if time.monotonic() < self._next:
            return None
        try:
            problem, self._closed_times = _problem(self._address, self._security), 0
        except _HandshakeRefusedError:
            problem, self._closed_times = None, self._closed_times + 1
        self._next = time.monotonic() + _PAUSE_SECS
        if self._closed_times < _CLOSED_TIMES:
            return problem
        return (
            f"The learner at {self._address} closes each connection after the TLS handshake: it probably "
            "does not accept this end's certificate. Give --tls_certificate and --tls_key from its "
            "--tls_authority."
        )


class _HandshakeRefusedError(Exception):
    """The other end has closed the connection, although both ends use TLS."""


def _problem(address: str, security: Security) -> str | None:
    """Tries to connect; None: that works, or nothing listens there (yet), or it does not answer.

    Raises:
      _HandshakeRefusedError: it closes the connection after the handshake.
    """
    try:
        _connect(address, security)
    except ssl.SSLCertVerificationError as error:
        return (
            f"The certificate of the learner at {address} is not accepted ({error.reason}: "
            f"{error.verify_message.rstrip('.')}); correct --tls_authority or --tls_server_name, or the "
            "learner's --tls_certificate."
        )
    except (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError):
        return None
    except ssl.SSLError as error:
        if security.authority is None:
            return None  # There is no TLS at either end.
        if "ALERT" in (error.reason or ""):
            raise _HandshakeRefusedError from None
        return (
            f"What listens at {address} does not speak TLS ({error.reason}); start the learner with "
            "--tls_certificate and --tls_key, or leave out --tls_authority."
        )
    except (OSError, TimeoutError):
        return None
    if security.authority is None:
        return f"The learner at {address} speaks TLS; give --tls_authority."
    return None


def _connect(address: str, security: Security) -> None:
    """Makes the handshake, and waits for the first byte: a server refuses a certificate only after it."""
    context = _context(security)
    with contextlib.ExitStack() as stack:
        if address.startswith("unix:"):
            host, plain = "localhost", stack.enter_context(socket.socket(socket.AF_UNIX))
            plain.settimeout(_TRY_SECS)
            plain.connect(unquote(address.removeprefix("unix:")))
        else:
            host, _, port = address.removeprefix("dns:///").rpartition(":")
            host = host.strip("[]")
            plain = stack.enter_context(socket.create_connection((host, port), _TRY_SECS))
        secure = context.wrap_socket(plain, server_hostname=security.server_name or host)
        if not stack.enter_context(secure).recv(1) and security.authority is not None:
            raise _HandshakeRefusedError


def _context(security: Security) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_alpn_protocols(["h2"])
    if security.authority is None:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # As in gRPC.
    context.load_verify_locations(cadata=security.authority.decode("ascii", "ignore"))
    security.load_chain(context)
    return context
