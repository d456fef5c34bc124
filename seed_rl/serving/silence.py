"""What peers may cost that connect and say nothing. No TensorFlow."""

import asyncio
from collections.abc import Coroutine
from typing import Any, NamedTuple

import grpc


class Limits(NamedTuple):
    """How long peers may be silent, and how many of them there may be.

    Attributes:
      takeover_secs: how long an actor waits for environments that another process holds: one that restarts
        may be back before its old connection is seen to be closed.
      hello_secs: how long a stream may last without its hello.
      spare_streams: streams without a hello that there may be, besides one for each environment.
      handshake_secs: how long a connection may take to speak TLS and HTTP/2.
      idle_secs: how long a connection may last without a call.
    """

    takeover_secs: float = 3.0
    hello_secs: float = 30.0
    spare_streams: int = 64
    handshake_secs: float = 10.0
    idle_secs: float = 120.0


class SilenceError(Exception):
    """A stream ends without a hello, with this status and sentence; its actor may connect again."""

    def __init__(self, code: grpc.StatusCode, sentence: str):
        super().__init__(sentence)
        self.code = code


class Hellos:
    """Waits for the first messages of streams. Belongs to one event loop."""

    def __init__(self, timeout_secs: float, max_streams: int):
        """Waits at most `timeout_secs` for each of at most `max_streams` at a time."""
        self._timeout_secs, self._max_streams = timeout_secs, max_streams
        self._waiting: dict[asyncio.Future[Any], None] = {}  # The oldest first.

    async def first(self, read: Coroutine[Any, Any, Any]) -> Any:
        """What `read` gives. One stream too many ends the oldest: honest actors say hello at once.

        Raises:
          SilenceError: nothing came in time, or before there were too many.
        """
        message = asyncio.ensure_future(read)
        self._waiting[message] = None
        if len(self._waiting) > self._max_streams:
            next(iter(self._waiting)).cancel()
        try:
            await asyncio.wait([message], timeout=self._timeout_secs)
            if message.cancelled():
                raise SilenceError(
                    grpc.StatusCode.UNAVAILABLE, "Too many streams wait without a hello; connect again."
                )
            if not message.done():
                raise SilenceError(
                    grpc.StatusCode.DEADLINE_EXCEEDED,
                    f"No hello came within {self._timeout_secs:g} s; send it as soon as the stream is open.",
                )
            return message.result()
        finally:
            del self._waiting[message]
            message.cancel()
