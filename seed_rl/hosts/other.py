"""A learner host other than the first: comes to the first one and stays in touch. No TensorFlow."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping
from typing import Any

import grpc

from seed_rl.hosts.peers import (
    GATHERING,
    METHOD,
    OVER,
    PROBING,
    RUNNING,
    HostsDisagreeError,
    Peers,
    decode,
    encode,
)
from seed_rl.serving.listener import Listener
from seed_rl.wire.hosts import LearnerHosts
from seed_rl.wire.protocol import channel_options
from seed_rl.wire.security import Security
from seed_rl.wire.tls import why_unusable

_LEAVE_SECS = 5.0
_MEETING_SECS = 0.1


class OtherHost(Peers):
    """Host 1 and up."""

    def __init__(
        self,
        hosts: LearnerHosts,
        listener: Listener,
        timeout_secs: float,
        identity: Mapping[str, Any],
        security: Security = Security(),  # noqa: B008 (immutable)
    ):
        """Prepares to call the first host; see `Peers`. `security` is what it needs to be called."""
        super().__init__(hosts, listener, timeout_secs, identity)
        self._security = security.between_learners()
        self._phase = GATHERING
        self._probed, self._sentence, self._left = False, "", ""
        self._over = False  # No longer in touch.
        self._leaving = asyncio.Event()
        self._collectives: list[str] = []

    def meet(self, stopping: Callable[[], bool]) -> list[str]:
        """See `Peers.meet`."""
        self._start(self._stay_in_touch)
        for phase in (PROBING, RUNNING):
            if not self._wait_for(
                lambda phase=phase: bool(self.problem) or self._phase >= phase,  # type: ignore[misc]
                2 * self._timeout_secs,
                stopping,
            ):
                if stopping():
                    return []
                raise HostsDisagreeError(
                    f"{self.hosts.name(0)} did not begin within {2 * self._timeout_secs:g} s; look at its "
                    "output."
                )
            if self.problem:
                raise HostsDisagreeError(self.problem)
            if phase == PROBING:
                self._sentence = self._probe(self._collectives)
                self._probed = not self._sentence
        self._free_port()
        return self._collectives

    def leave(self, reason: str = "") -> None:
        """See `Peers.leave`. Without a reason, the first host leaves first: it saves the run."""
        if self._is_leaving.is_set():
            return
        if not reason:
            self._wait_for(
                lambda: self._over or bool(self.problem) or self._phase == OVER, self._timeout_secs
            )
        self._left = reason
        self._is_leaving.set()
        self._listener.call_soon(self._leaving.set)
        self._wait_for(lambda: self._over, _LEAVE_SECS)
        self._end()

    async def _stay_in_touch(self) -> None:
        first = self.hosts.name(0)
        channel = self._security.channel(
            self.hosts.addresses[0], [*channel_options(-1), ("grpc.max_reconnect_backoff_ms", 1_000)]
        )
        unusable = asyncio.ensure_future(self._fail_if_unusable(channel))
        try:
            await self._call(channel)
        except TimeoutError:
            if self._phase == GATHERING:
                self._fail(self._absence([0]))
            else:
                self._fail(f"{first} is lost: it has been silent for {self._timeout_secs:g} s.")
        except grpc.RpcError as error:
            if error.code() in (grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.UNAUTHENTICATED):
                self._fail(error.details() or "")
            else:
                self._fail(f"{first} is lost: {error.details()}.")
        except ConnectionError:
            self._fail(f"{first} is lost: its connection ended.")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            self._fail(f"{first} is lost: it sent something else than expected: {error!r}.")
        finally:
            unusable.cancel()
            with self._changed:
                self._over = True
                self._changed.notify_all()
            await channel.close()

    async def _fail_if_unusable(self, channel: grpc.aio.Channel) -> None:
        self._fail(await why_unusable(channel, self.hosts.addresses[0], self._security))

    async def _call(self, channel: grpc.aio.Channel) -> None:
        """Talks to the first host until either leaves."""
        deadline = time.monotonic() + self._timeout_secs
        while True:
            call = channel.stream_stream(METHOD)(metadata=self._security.metadata(), wait_for_ready=True)
            try:
                await asyncio.wait_for(self._send(call, self._introduction()), self._timeout_secs)
                await self._converse(call)
                return
            except grpc.RpcError as error:
                if error.code() != grpc.StatusCode.UNAVAILABLE:
                    raise
                if self._phase != GATHERING:
                    raise ConnectionError from None  # gRPC's words for it vary.
                if self.problem or time.monotonic() > deadline:
                    raise
                await asyncio.sleep(self._beat_secs)
            finally:
                call.cancel()

    async def _converse(self, call: Any) -> None:
        while True:
            data = await asyncio.wait_for(call.read(), self._timeout_secs)
            if data is grpc.aio.EOF:
                code = await call.code()
                if code != grpc.StatusCode.OK:
                    raise grpc.aio.AioRpcError(
                        code, grpc.aio.Metadata(), grpc.aio.Metadata(), await call.details()
                    )
                raise ConnectionError
            self._heard(decode(data))
            await self._pause()
            if self._is_leaving.is_set():
                await self._send(call, {"left": self._left})
                await call.done_writing()
                await asyncio.wait_for(call.read(), _LEAVE_SECS)  # Its end: the first host has read it.
                return
            await self._send(
                call,
                {
                    "probed": self._probed,
                    "sentence": self._sentence,
                    "progress": self._progress.message(),
                    "report": self.take_report(),
                },
            )

    async def _pause(self) -> None:
        """Waits until the next message is due: soon while the hosts meet, and when this one leaves."""
        with contextlib.suppress(asyncio.TimeoutError):
            pause_secs = self._beat_secs if self._phase >= RUNNING else min(_MEETING_SECS, self._beat_secs)
            await asyncio.wait_for(self._leaving.wait(), pause_secs)

    async def _send(self, call: Any, message: Mapping[str, Any]) -> None:
        try:
            await call.write(encode(message))
        except asyncio.InvalidStateError:
            raise ConnectionError from None

    def _introduction(self) -> dict[str, Any]:
        return {
            "index": self.hosts.index,
            "identity": self._identity,
            "collective": self._collective,
        }

    def _heard(self, reply: dict[str, Any]) -> None:
        with self._changed:
            if reply["collectives"]:
                self._collectives = reply["collectives"]
            self._phase = max(self._phase, int(reply["phase"]))
            self._changed.notify_all()
        if reply["problem"]:
            self._fail(reply["problem"])
