"""The actor's end of gRPC: a channel, and the stream that connects an actor process with the learner."""

import asyncio
import contextlib
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from grpc._cython import cygrpc

from seed_rl.messages import one_line
from seed_rl.wire.generated import inference_pb2 as pb
from seed_rl.wire.protocol import SERVICE, channel_options
from seed_rl.wire.security import Security
from seed_rl.wire.tls import why_unusable

_PROBE_SECS = 5.0

_REFUSALS = {
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.OUT_OF_RANGE,
    grpc.StatusCode.UNAUTHENTICATED,
}


class _EndedError(Exception):
    """A connection has ended; its message may be the learner's, or of what else listens there."""

    def __init__(self, sentence: str | None):
        super().__init__(one_line(sentence or "", 1_000))


class RefusedError(_EndedError):
    """The learner refuses this actor; the message is the learner's. Retrying without a change is useless."""


class LearnerGoneError(_EndedError):
    """The learner cannot be reached (any more); it may come back."""


class NoFreeTaskError(LearnerGoneError):
    """Other actors have all tasks; one of them may leave."""


class TrainingEndedError(Exception):
    """Training is complete; there is nothing more to do."""


def _translate(code: grpc.StatusCode, details: str | None) -> Exception:
    """The exception above that matches the status of a stream."""
    if code == grpc.StatusCode.OK:
        return TrainingEndedError()
    if code == grpc.StatusCode.RESOURCE_EXHAUSTED:
        return NoFreeTaskError(details)
    if code == grpc.StatusCode.UNIMPLEMENTED:
        return RefusedError(
            f"The server at --server_address is not a learner of this actor's version ({details}); change "
            "the address or the version."
        )
    if code in _REFUSALS:
        return RefusedError(details or code.name)
    return LearnerGoneError(f"{code.name}: {details}")


class Channel:
    """A channel to a learner or gateway. Belongs to the event loop in which it was made.

    Attributes:
      address: unix:PATH or HOST:PORT.
    """

    def __init__(self, address: str, security: Security = Security()):  # noqa: B008 (immutable)
        """Prepares a channel to `address` (unix:PATH or HOST:PORT); nothing is sent yet."""
        options = [
            *channel_options(-1),  # The learner enforces the size limit.
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.initial_reconnect_backoff_ms", 200),
            ("grpc.max_reconnect_backoff_ms", 1_000),  # A learner may be up for a few seconds only.
        ]
        self.address, self._security = address, security
        self._channel = security.channel(address, options)
        self._connect = self._channel.stream_stream(f"/{SERVICE}/Connect")  # Of bytes: `wire.frames`.

    async def join(self, join: pb.Join, timeout_secs: float) -> "tuple[Stream, pb.Welcome]":
        """Waits for the learner, and joins it.

        Raises:
          RefusedError, NoFreeTaskError, TrainingEndedError: the learner's answer.
          LearnerGoneError: no answer in time.
        """
        stream = Stream(self._connect(metadata=self._security.metadata(), wait_for_ready=True))
        joining = asyncio.ensure_future(stream.join(join))
        failing = asyncio.ensure_future(why_unusable(self._channel, self.address, self._security))
        try:
            await asyncio.wait((joining, failing), timeout=timeout_secs, return_when=asyncio.FIRST_COMPLETED)
            if joining.done():
                return stream, await joining
            if failing.done():
                raise RefusedError(await failing)
            raise await self._why_silent(timeout_secs)
        except BaseException:
            stream.close()
            raise
        finally:
            joining.cancel()
            failing.cancel()

    async def _why_silent(self, timeout_secs: float) -> Exception:
        """Why no Welcome came. A call that does not wait reports a certificate, or that nothing listens."""
        call = self._connect(metadata=self._security.metadata(), timeout=_PROBE_SECS)
        code = await call.code()
        if code in (grpc.StatusCode.OK, grpc.StatusCode.DEADLINE_EXCEEDED):
            return LearnerGoneError(f"no answer within {timeout_secs:g} s")
        return _translate(code, await call.details())

    async def close(self) -> None:
        """Closes the channel and with it every stream."""
        await self._channel.close()


class Stream:
    """A Connect stream. Belongs to the event loop that opened it."""

    def __init__(self, call: Any):
        """Takes ownership of a call."""
        self._call = call

    async def join(self, join: pb.Join) -> pb.Welcome:
        """Sends a Join, and waits for the Welcome."""
        await self.send(pb.FromActor(join=join).SerializeToString())
        return parsed(await self.receive()).welcome

    async def send(self, message: bytes) -> None:
        """Sends a FromActor. Never fails: `receive` reports whatever is wrong with the stream."""
        await send(self._call, message)

    async def receive(self) -> bytes:
        """Waits for a FromLearner.

        Raises:
          TrainingEndedError: training is complete.
          RefusedError: the learner ended the stream for good and said why.
          LearnerGoneError: the connection is lost.
        """
        data = await read(self._call)
        if data is grpc.aio.EOF:
            raise _translate(await self._call.code(), await self._call.details())
        return data

    def close(self) -> None:
        """Ends the stream; safe to call twice."""
        self._call.cancel()


async def send(call: Any, message: bytes) -> None:
    """Sends bytes; never fails, because the call's status says whatever is wrong.

    If the other end has ended the call, `call.write` would set that status to INTERNAL: the real one, which
    says why, would be lost.
    """
    with contextlib.suppress(cygrpc.BaseError, asyncio.InvalidStateError):
        await call._metadata_sent.wait()
        if not call.done():
            await call._cython_call.send_serialized_message(message)


async def read(call: Any) -> Any:
    """The next message of a call as bytes, or EOF; never fails, because the call's status says why."""
    try:
        return await call.read()
    except grpc.RpcError:
        return grpc.aio.EOF


def parsed(message: bytes) -> pb.FromLearner:
    """The learner's message.

    Raises:
      LearnerGoneError: it is not one.
    """
    try:
        return pb.FromLearner.FromString(message)
    except DecodeError as error:
        raise LearnerGoneError(f"the learner's answer cannot be read: {error}") from None


def resolved(address: str, asked: str) -> str:
    """The address that a Welcome names, for an actor that asked at `asked`."""
    return f"{asked.rpartition(':')[0]}{address}" if address.startswith(":") else address
