"""Limits on peers that connect and send nothing. No TensorFlow."""

import asyncio
from collections.abc import Coroutine
from typing import Any, NamedTuple

import grpc

from seed_rl.serving.connection import Refusal


class Limits(NamedTuple):
    """Limits on the time that peers may be silent, and on their number.

    All are short enough that a new actor gets in within 10 s of the last such peer.
    Well-behaved clients send their Join with the stream.

    Attributes:
      join_secs: how long a stream may stay open without its Join.
      spare_streams: how many streams without a Join are allowed, besides one for each environment.
      handshake_secs: how long a connection may take for its TLS and HTTP/2 handshakes.
      idle_secs: how long a connection may stay open without a call.
    """

    join_secs: float = 5.0
    spare_streams: int = 64
    handshake_secs: float = 5.0
    idle_secs: float = 3.0


class FirstMessages:
    """Waits for the first messages of streams. Belongs to one event loop."""

    def __init__(self, timeout_secs: float, max_streams: int):
        """Waits at most `timeout_secs` for each of at most `max_streams` at a time."""
        self._timeout_secs, self._max_streams = timeout_secs, max_streams
        self._waiting: dict[asyncio.Future[Any], None] = {}  # The oldest first.

    async def first(self, read: Coroutine[Any, Any, Any]) -> Any:
        """The message from `read`. One stream too many ends the oldest: good clients send Join at once.

        Raises:
          Refusal: nothing arrived in time, or before there were too many streams; the actor may come
            again.
        """
        message = asyncio.ensure_future(read)
        self._waiting[message] = None
        if len(self._waiting) > self._max_streams:
            oldest = next(iter(self._waiting))
            del self._waiting[oldest]  # Now: more of them may come before it is gone.
            oldest.cancel()
        try:
            await asyncio.wait([message], timeout=self._timeout_secs)
            if message.cancelled():
                raise Refusal(
                    grpc.StatusCode.UNAVAILABLE,
                    "Too many streams are waiting without a Join; connect again.",
                )
            if not message.done():
                raise Refusal(
                    grpc.StatusCode.DEADLINE_EXCEEDED,
                    f"No Join came within {self._timeout_secs:g} s; send it as soon as the stream is open.",
                )
            return message.result()
        finally:
            self._waiting.pop(message, None)
            message.cancel()
