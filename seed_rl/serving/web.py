"""The door for browsers: the messages of protos/inference.proto as binary frames of a WebSocket.

Each WebSocket is served as a gRPC stream is, by the same service under the same rules. No TensorFlow.
"""

import asyncio
import base64
import binascii
import contextlib
import functools
import http
import json
import logging
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from seed_rl.messages import one_line
from seed_rl.serving import live
from seed_rl.serving.connection import Limits, Refusal
from seed_rl.wire import protocol
from seed_rl.wire.security import Security, is_local

# A browser asks for these subprotocols: this one, and one with the token, which no page can send in a header.
SUBPROTOCOL = "seed_rl"
_TOKEN = "token."

# The end of a stream: a WebSocket's code for it is this much more than gRPC's status.
FIRST_CODE = 4000

_PING_SECS, _PONG_SECS = 20.0, 10.0  # As for gRPC.
_END_SECS = 3.0  # For a peer to read the status of its end.
_MOST_REASON_BYTES = 120
_MOST_BYTES = 64 << 20
_MOST_UNREAD_BYTES = 1 << 20  # Of a peer that does not read; it is not read from either.

# The live page's own WebSocket.
LIVE_PATH = "/live"
# The page loads nothing from elsewhere, and no other page may frame it.
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "img-src data:; connect-src 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
}

# Peers that speak no WebSocket get no line in the log; the service logs what breaks its own protocol.
_QUIET = logging.Logger("seed_rl.web", logging.CRITICAL + 1)

# Answers a stream of a service with this context, as the listener does for gRPC.
Answer = Callable[[str, Any], Awaitable[None]]


class _AbortedError(Exception):
    """The service has ended a stream with a status."""


class Door:
    """Serves WebSockets on an address; belongs to an event loop.

    Attributes:
      port: where it listens.
    """

    def __init__(
        self,
        address: str,
        answer: Answer,
        security: Security,
        limits: Limits,
        max_message_bytes: int,
        origins: tuple[str, ...] = (),
        page: bytes | None = None,
        most_connections: int = 1 << 31,
    ):
        """Prepares; `open` starts it.

        Args:
          address: HOST:PORT.
          answer: serves a stream of a service, and checks its token.
          security: TLS of the connections.
          limits: of what silent peers may use.
          max_message_bytes: a larger message ends its connection; -1: one of more than 64 MiB.
          origins: of pages elsewhere that may connect; a page from this address always may.
          page: the live page; None: there is none.
          most_connections: the largest number; others are closed at once.
        """
        self._host, _, port = address.rpartition(":")
        self.port, self._answer = int(port), answer
        self._is_local, self._origins, self._page = is_local(address), origins, page
        self._context: ssl.SSLContext | None = None
        if security.certificate is not None:
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            security.load_chain(self._context)
            if security.authority is not None:
                self._context.load_verify_locations(cadata=security.authority.decode("ascii", "ignore"))
                self._context.verify_mode = ssl.CERT_REQUIRED
        self._options: dict[str, Any] = {
            "max_size": _MOST_BYTES if max_message_bytes < 0 else max_message_bytes,
            "open_timeout": limits.handshake_secs,
            "close_timeout": limits.handshake_secs,
            "create_connection": functools.partial(_WebSocket, most_connections),
            "ssl": self._context,
        }
        self._server: Server | None = None

    async def open(self) -> None:
        """Listens; OSError if it cannot."""
        self._server = await serve(
            self._serve,
            self._host.strip("[]"),
            self.port,
            process_request=self._request,
            subprotocols=[SUBPROTOCOL],  # type: ignore[list-item] # A NewType of str.
            select_subprotocol=lambda connection, offered: SUBPROTOCOL if SUBPROTOCOL in offered else None,  # type: ignore
            compression=None,
            ping_interval=_PING_SECS,
            ping_timeout=_PONG_SECS,
            server_header=None,
            logger=_QUIET,
            **self._options,
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Ends all connections, and stops listening; does not wait long for peers that do not answer."""
        if self._server is not None:
            connections = list(self._server.connections)
            self._server.close()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._server.wait_closed(), _END_SECS)
            for connection in connections:
                connection.transport.abort()  # If its peer does not read.
            await self._server.wait_closed()

    def _request(self, connection: ServerConnection, request: Request) -> Response | None:
        """Answers a request that is to open no WebSocket; None: it may."""
        headers = request.headers
        host, origin = headers.get("Host", ""), headers.get("Origin")
        has_port = host.rpartition(":")[2].isdigit()
        # A name of somebody's that leads to this machine would make their pages this address's own.
        if self._is_local and not is_local(host if has_port else f"{host}:0"):
            return _plain(http.HTTPStatus.FORBIDDEN, "This server is for its own machine; use localhost.")
        own = f"{'https' if self._context else 'http'}://{host}"
        if origin is not None and origin not in (own, *self._origins):
            shown = one_line(origin, 100)
            sentence = f"Pages from {shown} may not connect; add --web_origins={shown}."
            return _plain(http.HTTPStatus.FORBIDDEN, sentence)
        if headers.get("Upgrade", "").lower() == "websocket":
            return None
        if self._page and request.path.partition("?")[0] == "/":
            return _response(http.HTTPStatus.OK, "text/html", self._page)
        return _plain(http.HTTPStatus.UPGRADE_REQUIRED, "Open a WebSocket here.")

    async def _serve(self, connection: ServerConnection) -> None:
        assert connection.request is not None
        is_live = self._page is not None and connection.request.path == LIVE_PATH
        context = _Context(connection, is_live)
        with contextlib.suppress(_AbortedError):
            await self._answer(live.SERVICE if is_live else protocol.SERVICE, context)
        code, sentence = context.status
        reason = sentence.encode()[:_MOST_REASON_BYTES].decode(errors="ignore")
        with contextlib.suppress(ConnectionClosed, TimeoutError):
            async with asyncio.timeout(_END_SECS):
                await connection.send(json.dumps({"code": code.name, "message": sentence}))
                await connection.close(FIRST_CODE + code.value[0], reason)
        connection.transport.abort()  # If its peer does not read.


class _WebSocket(ServerConnection):
    """A WebSocket whose peer has to read, or it is taken for gone.

    Answers to its pings would pile up here, and what finds out whether it is there would wait behind them.
    """

    _end: asyncio.TimerHandle

    def __init__(self, most_connections: int, *arguments: Any, **options: Any):
        super().__init__(*arguments, **options)
        self._most_connections = most_connections

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if len(self.server.handler_tasks) > self._most_connections:
            self.transport.abort()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.transport.get_write_buffer_size() > _MOST_UNREAD_BYTES:
            self.transport.pause_reading()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._end = self.loop.call_later(_PING_SECS + _PONG_SECS, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._end.cancel()
        if not self.recv_messages.paused:
            self.transport.resume_reading()


class _Context:
    """A WebSocket in the place of gRPC's context of a stream.

    Attributes:
      status: of its end: OK unless it is aborted.
    """

    def __init__(self, connection: ServerConnection, takes_text: bool):
        self._connection, self._takes_text = connection, takes_text
        self.status = grpc.StatusCode.OK, ""

    def peer(self) -> str:
        host, port = self._connection.remote_address[:2]
        return f"web:{host}:{port}"

    def invocation_metadata(self) -> list[tuple[str, str]]:
        """The token, from a header or a subprotocol."""
        assert self._connection.request is not None
        headers = self._connection.request.headers
        if "Authorization" in headers:
            return [("authorization", headers["Authorization"])]
        for offered in headers.get("Sec-WebSocket-Protocol", "").split(","):
            if offered.strip().startswith(_TOKEN):
                text = offered.strip().removeprefix(_TOKEN)
                with contextlib.suppress(binascii.Error, ValueError):
                    token = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode("ascii")
                    return [("authorization", f"Bearer {token}")]
        return []

    async def read(self) -> Any:
        try:
            message = await self._connection.recv()
        except ConnectionClosed:
            return grpc.aio.EOF
        if isinstance(message, str) and not self._takes_text:
            raise Refusal(grpc.StatusCode.INVALID_ARGUMENT, "A message came as text; send binary frames.")
        return message

    async def write(self, message: bytes | str) -> None:
        with contextlib.suppress(ConnectionClosed):  # The reader finds that out.
            await self._connection.send(message)

    def set_trailing_metadata(self, metadata: Any) -> None:
        """Nothing to do: other servers do not speak this protocol."""

    async def abort(self, code: grpc.StatusCode, sentence: str) -> None:
        self.status = code, sentence
        raise _AbortedError


def _plain(status: http.HTTPStatus, sentence: str) -> Response:
    return _response(status, "text/plain", f"{sentence}\n".encode())


def _response(status: http.HTTPStatus, kind: str, body: bytes) -> Response:
    headers = {"Content-Type": f"{kind}; charset=utf-8", "Content-Length": str(len(body)), **_HEADERS}
    return Response(status, status.phrase, Headers(headers), body)
