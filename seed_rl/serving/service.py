"""The gRPC service: one stream per actor process, which is a connection and carries its messages.

Runs on one asyncio event loop. A stream needs no thread, so hundreds of actors can be connected.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from seed_rl.serving.batcher import Batcher
from seed_rl.serving.connection import Connection, RefusedError
from seed_rl.serving.connections import Connections
from seed_rl.serving.request import Request
from seed_rl.serving.shared_memory import MemoryServer
from seed_rl.serving.silence import FirstMessages, Limits, SilenceError
from seed_rl.types import EnvironmentSpec
from seed_rl.wire.codec import ActionCodec, StepCodec
from seed_rl.wire.frames import Frames, actions_frames, step_frames
from seed_rl.wire.generated import inference_pb2 as pb

# What ends a stream: an error with a status, or None where the actor or training has ended.
Refusal = RefusedError | SilenceError | None


class InferenceService:
    """Connect, as protos/inference.proto defines it."""

    def __init__(
        self,
        connections: Connections,
        spec: EnvironmentSpec,
        num_envs: int,
        limits: Limits = Limits(),  # noqa: B008 (immutable)
        memory: MemoryServer | None = None,
    ):
        """Prepares the service.

        Args:
          connections: decide everything.
          spec: of the environments.
          num_envs: environments of the run.
          limits: of what silent peers may use.
          memory: gives actors shared memory, if there is any.
        """
        self._connections, self._memory = connections, memory
        self._record_bytes = StepCodec(spec).record_bytes
        self._action_bytes = ActionCodec(spec.action).action_bytes
        self._joins = FirstMessages(limits.join_secs, num_envs + limits.spare_streams)
        self._streams: set[asyncio.Task[Any]] = set()

    async def wait_until_left(self, timeout_secs: float) -> None:
        """Waits for every stream to end on its own, so that its actor gets the reason."""
        if self._streams:
            await asyncio.wait(self._streams, timeout=timeout_secs)

    async def connect(self, request_iterator: Any, context: Any) -> None:
        """Serves one actor process. Messages are bytes here, see `seed_rl.wire.frames`."""
        task = asyncio.current_task()
        assert task is not None
        self._streams.add(task)
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[Refusal] = loop.create_future()

        def end(refusal: Refusal) -> None:
            with contextlib.suppress(RuntimeError):  # The loop has been closed.
                loop.call_soon_threadsafe(_set, ended, refusal)

        stream = MessageCarrier(context)
        reading = asyncio.ensure_future(self._read(stream, end))
        try:
            await asyncio.wait((reading, ended), return_when=asyncio.FIRST_COMPLETED)
            refusal = ended.result() if ended.done() else await reading
        finally:
            self._streams.discard(task)
            reading.cancel()
            if stream.connection is not None:
                stream.connection.end()
                if self._memory:
                    self._memory.withdraw(stream.connection)
        if refusal is not None:
            await context.abort(refusal.code, str(refusal))

    async def _read(self, stream: "MessageCarrier", end: Callable[[Refusal], None]) -> Refusal:
        """Passes on what an actor says, until it has gone or is refused."""
        try:
            join = parsed(await self._joins.first(stream.context.read()), "join").join
            connection, welcome = self._connections.join(
                join, end, is_near=stream.context.peer().startswith("unix")
            )
            stream.connection = connection
            if connection is None:
                if welcome.address:
                    await stream.context.write(pb.FromLearner(welcome=welcome).SerializeToString())
                return None
            if self._memory and join.can_share_memory:
                self._memory.offer(connection, join, welcome)
            await stream.context.write(pb.FromLearner(welcome=welcome).SerializeToString())
            size = join.num_envs // join.num_groups
            steps = step_frames(join.num_groups, size * self._record_bytes)
            stream.frames = actions_frames(join.num_groups, size * self._action_bytes)
            while (message := await stream.context.read()) is not grpc.aio.EOF:
                if found := steps.split(message):
                    connection.steps([(*step, ()) for step in found], stream)
                else:
                    self._take(message, connection, stream)
        except (RefusedError, SilenceError) as refusal:
            return refusal
        return None

    def _take(self, message: bytes, connection: Connection, stream: "MessageCarrier") -> None:
        """Takes any other message than a step without episodes."""
        said = parsed(message, "steps" if connection.is_ready else "ready", "ready", "steps")
        if said.HasField("ready"):
            self._connections.ready(connection, said.ready, stream)
            if self._memory:
                self._memory.withdraw(connection)
        else:
            connection.steps([(step.group, step.records, step.episodes) for step in said.steps], stream)


class MessageCarrier:
    """A stream that carries actions to an actor; belongs to the event loop.

    Attributes:
      context: gRPC's.
      connection: its connection, from the Join on.
      frames: of the actions.
    """

    is_direct = False

    def __init__(self, context: Any):
        """Carries over the stream of gRPC's `context`."""
        self.context = context
        self.connection: Connection | None = None
        self.frames: Frames | None = None
        self._outgoing: list[bytes] = []
        self._writing: asyncio.Task[None] | None = None

    def begin(self, batcher: Batcher[Request]) -> None:
        """Nothing to do: the stream is read anyway."""

    def send(self, answers: Sequence[tuple[int, bytes]]) -> None:
        """Sends the actions soon; those that come while others are being sent become one message."""
        assert self.frames is not None
        self._outgoing.extend(self.frames.prefixes[number] + actions for number, actions in answers)
        if self._writing is None or self._writing.done():
            self._writing = asyncio.ensure_future(self._write())

    async def _write(self) -> None:
        # If the stream has ended, its reader finds that out.
        with contextlib.suppress(grpc.RpcError, asyncio.InvalidStateError, grpc.aio.BaseError):
            while outgoing := self._outgoing:
                self._outgoing = []
                await self.context.write(b"".join(outgoing))

    def close(self) -> None:
        """Sends nothing more."""
        self._outgoing.clear()


def parsed(message: Any, expected: str, *others: str) -> pb.FromActor:
    """Parses an actor's message, which is to be of the kind `expected`, or one of the others.

    Raises:
      RefusedError: it is of another kind, or no message.
    """
    invalid = grpc.StatusCode.INVALID_ARGUMENT
    try:
        said = pb.FromActor.FromString(b"" if message is grpc.aio.EOF else message)
    except DecodeError:
        raise RefusedError(invalid, "The message is not a FromActor of protos/inference.proto.") from None
    kinds = [field.name for field, _ in said.ListFields()]
    if len(kinds) != 1 or kinds[0] not in (expected, *others):
        raise RefusedError(invalid, f"The message must have `{expected}` here, and nothing else.")
    return said


def _set(future: "asyncio.Future[Refusal]", result: Refusal) -> None:
    if not future.done():
        future.set_result(result)
