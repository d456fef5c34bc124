"""The gRPC service: one stream per actor process, which is a connection and carries its messages.

Runs on one asyncio event loop. A stream needs no thread, so hundreds of actors can be connected.
"""

import abc
import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from seed_rl.messages import warn
from seed_rl.serving.batcher import Batcher
from seed_rl.serving.connection import FirstMessages, OnEnd, Refusal, failure
from seed_rl.serving.request import Request
from seed_rl.wire.codec import ActionCodec
from seed_rl.wire.frames import Frames, Outgoing, actions_frames, step_frames
from seed_rl.wire.generated import inference_pb2 as pb
from seed_rl.wire.protocol import LEARNERS_MARK, record_size, sizes_of

# Of connections that end because the learner stops, or because their actors have connected again.
_NO_REFUSALS = grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.ABORTED
_MOST_LINES, _PERIOD_SECS = 10, 60.0

# Errors of gRPC when the other end of a stream is gone.
_GONE = grpc.RpcError, asyncio.InvalidStateError, grpc.aio.BaseError


class InferenceService(abc.ABC):
    """Connect, as protos/inference.proto defines it; subclasses are a learner's and a gateway's."""

    def __init__(self, join_secs: float, max_waiting: int, on_refusal: Callable[[], None] = lambda: None):
        """A stream has `join_secs` for its Join, and at most `max_waiting` streams may be without one."""
        self._joins, self._on_refusal = FirstMessages(join_secs, max_waiting), on_refusal
        self._num_refused = 0  # In the period that the last line has begun.

    @abc.abstractmethod
    async def _join(self, join: pb.Join, context: Any, end: OnEnd) -> tuple[Any, pb.Welcome]:
        """Answers a Join; see `Connections.join`."""

    @abc.abstractmethod
    async def _ready(self, connection: Any, ready: pb.Ready, stream: "MessageCarrier") -> None:
        """Lets a connection send steps from now on, and refuses a Ready that does not fit."""

    async def connect(self, request_iterator: Any, context: Any) -> None:
        """Serves one actor process. Messages are bytes here, see `seed_rl.wire.frames`."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[Refusal | None] = loop.create_future()

        def end(refusal: Refusal | None) -> None:
            with contextlib.suppress(RuntimeError):  # The loop has been closed.
                loop.call_soon_threadsafe(_set, ended, refusal)

        stream = MessageCarrier(context, end)
        reading = asyncio.ensure_future(self._read(stream, end))
        try:
            await asyncio.wait((reading, ended), return_when=asyncio.FIRST_COMPLETED)
            refusal = ended.result() if ended.done() else await reading
        finally:
            reading.cancel()
            if stream.connection is not None:
                stream.connection.end()
        context.set_trailing_metadata([LEARNERS_MARK])
        if refusal is not None and refusal.code != grpc.StatusCode.OK:
            if refusal.code not in _NO_REFUSALS:
                self._report(context.peer(), refusal.code, str(refusal))
            await context.abort(refusal.code, str(refusal))

    def _report(self, peer: str, code: grpc.StatusCode, sentence: str) -> None:
        """Counts a refusal and logs it: at most 10 a minute, and then how many others there were."""
        self._on_refusal()
        if not self._num_refused:
            asyncio.get_running_loop().call_later(_PERIOD_SECS, self._end_period)
        self._num_refused += 1
        if self._num_refused <= _MOST_LINES:
            warn(f"refused the actor at {peer} ({code.name}): {sentence}")

    def _end_period(self) -> None:
        if self._num_refused > _MOST_LINES:
            warn(f"refused {self._num_refused - _MOST_LINES} more actors within {_PERIOD_SECS:g} s.")
        self._num_refused = 0

    async def _read(self, stream: "MessageCarrier", end: OnEnd) -> Refusal | None:
        """Passes on the messages of an actor, until it has gone or is refused."""
        try:
            join = parsed(await self._joins.first(stream.context.read()), "join").join
            connection, welcome = await self._join(join, stream.context, end)
            stream.connection = connection
            if connection is None:
                if welcome.address:
                    await stream.context.write(pb.FromLearner(welcome=welcome).SerializeToString())
                return None
            await stream.context.write(pb.FromLearner(welcome=welcome).SerializeToString())
            spec, size = sizes_of(welcome), join.num_envs // join.num_groups
            frames = step_frames(join.num_groups, size * record_size(welcome).record_bytes)
            stream.frames = actions_frames(join.num_groups, size * ActionCodec(spec.action).action_bytes)
            while (message := await stream.context.read()) is not grpc.aio.EOF:
                if connection.is_ready and (found := frames.split(message)):
                    connection.steps([(*group, ()) for group in found], stream)
                    continue
                said = parsed(message, "steps" if connection.is_ready else "ready", "ready", "steps")
                if said.HasField("ready"):
                    await self._ready(connection, said.ready, stream)
                    continue
                connection.steps([(step.group, step.records, step.episodes) for step in said.steps], stream)
        except Refusal as refusal:
            return refusal
        except _GONE:
            raise
        except Exception as error:
            return failure(error)
        return None


class MessageCarrier:
    """A stream that carries actions to an actor; belongs to the event loop.

    Attributes:
      context: gRPC's.
      connection: its connection, from the Join on.
      frames: of the actions.
    """

    is_direct = False

    def __init__(self, context: Any, end: OnEnd):
        self.context, self._end = context, end
        self.connection: Any = None
        self.frames: Frames | None = None
        self._outgoing = Outgoing(self._write)

    def begin(self, batcher: Batcher[Request]) -> None:
        """Nothing to do: the stream is read anyway."""

    def send(self, answers: Sequence[tuple[int, bytes]]) -> None:
        """Sends the actions soon; those that come while others are being sent become one message.

        An actor that sends steps without reading the actions would have more of them wait than it has groups.
        """
        assert self.frames is not None
        self._outgoing.extend(self.frames.message(number, actions) for number, actions in answers)
        if len(self._outgoing) > len(self.frames.prefixes):
            sentence = "A step came before the actions for the last one were read; read the actions first."
            self._end(Refusal(grpc.StatusCode.INVALID_ARGUMENT, sentence))

    async def _write(self, message: bytes) -> None:
        # If the stream has ended, its reader finds that out.
        with contextlib.suppress(*_GONE):
            await self.context.write(message)

    def close(self) -> None:
        """Sends nothing more."""
        self._outgoing.clear()


def parsed(message: Any, expected: str, *others: str) -> pb.FromActor:
    """Parses an actor's message, which is to be of the kind `expected`, or one of the others.

    Raises:
      Refusal: it is of another kind, or no message.
    """
    invalid = grpc.StatusCode.INVALID_ARGUMENT
    try:
        said = pb.FromActor.FromString(b"" if message is grpc.aio.EOF else message)
    except DecodeError:
        raise Refusal(invalid, "The message is not a FromActor of protos/inference.proto.") from None
    kinds = [field.name for field, _ in said.ListFields()]
    if len(kinds) != 1 or kinds[0] not in (expected, *others):
        raise Refusal(invalid, f"The message must have `{expected}` here, and nothing else.")
    return said


def _set(future: "asyncio.Future[Refusal | None]", result: Refusal | None) -> None:
    if not future.done():
        future.set_result(result)
