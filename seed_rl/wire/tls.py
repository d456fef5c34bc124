"""Why a connection can never work with this end's TLS; gRPC only tries again. No TensorFlow."""

import asyncio
import contextlib
import ssl
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

    `address` is unix:PATH or HOST:PORT. As long as the channel to it does not fail, nothing is tried.
    """
    closed = 0
    while True:
        await asyncio.sleep(_POLL_SECS)
        if channel.get_state() != grpc.ChannelConnectivity.TRANSIENT_FAILURE:
            continue
        try:
            if problem := await _problem(address, security):
                return problem
            closed = 0
        except _ClosedError:
            closed += 1
            if closed == _CLOSED_TIMES:
                return (
                    f"The learner at {address} closes each connection after the TLS handshake: it probably "
                    "does not accept this end's certificate. Give --tls_certificate and --tls_key from its "
                    "--tls_authority."
                )
        await asyncio.sleep(_PAUSE_SECS)


class _ClosedError(Exception):
    """The other end has closed the connection, although both ends speak TLS."""


async def _problem(address: str, security: Security) -> str | None:
    """Tries to connect; None: that works, or nothing listens there (yet), or it does not answer.

    Raises:
      _ClosedError: it closes the connection after the handshake.
    """
    try:
        await asyncio.wait_for(_connect(address, security), _TRY_SECS)
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
            raise _ClosedError from None
        return (
            f"What listens at {address} does not speak TLS ({error.reason}); start the learner with "
            "--tls_certificate and --tls_key, or leave out --tls_authority."
        )
    except (OSError, TimeoutError):
        return None
    if security.authority is None:
        return f"The learner at {address} speaks TLS; give --tls_authority."
    return None


async def _connect(address: str, security: Security) -> None:
    """Makes the handshake, and waits for the first byte: a server refuses a certificate only after it."""
    context = _context(security)
    if address.startswith("unix:"):
        path = unquote(address.removeprefix("unix:"))
        connecting = asyncio.open_unix_connection(
            path, ssl=context, server_hostname=security.server_name or "localhost"
        )
    else:
        host, _, port = address.removeprefix("dns:///").rpartition(":")
        host = host.strip("[]")
        connecting = asyncio.open_connection(
            host, port, ssl=context, server_hostname=security.server_name or host
        )
    reader, writer = await connecting
    try:
        if not await reader.read(1) and security.authority is not None:
            raise _ClosedError
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def _context(security: Security) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_alpn_protocols(["h2"])
    if security.authority is None:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # As in gRPC.
    context.load_verify_locations(cadata=security.authority.decode("ascii", "replace"))
    security.load_chain(context)
    return context
