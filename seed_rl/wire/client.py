"""The actor's end of the wire: a connection, and one stream of steps and actions per environment group.

All run on one event loop: one waiting thread per stream would cost about as much as the rest of an actor.
"""

import asyncio
import contextlib
from collections.abc import Iterable
from typing import Any

import grpc
import numpy as np
from google.protobuf.message import DecodeError

from seed_rl.messages import one_line
from seed_rl.wire.codec import ActionCodec
from seed_rl.wire.frames import actions_frame
from seed_rl.wire.generated import inference_pb2 as pb
from seed_rl.wire.generated.inference_pb2_grpc import InferenceStub
from seed_rl.wire.protocol import (
    PROTOCOL_VERSION,
    SERVICE,
    EnvironmentDescription,
    channel_options,
    differences,
)
from seed_rl.wire.security import Security
from seed_rl.wire.tls import why_unusable

_PROBE_SECS = 5.0

# A learner answers a hello at once, or after giving the previous holder of these environments time to leave.
HELLO_SECS = 30.0

_REFUSALS = {
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.OUT_OF_RANGE,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.UNAUTHENTICATED,
}


class _EndedError(Exception):
    """A connection has ended; its message may be the learner's, or of what else listens there."""

    def __init__(self, sentence: str | None):
        super().__init__(one_line(sentence or "", 1_000))


class RefusedError(_EndedError):
    """The learner refuses this actor; the message is the learner's. Retrying without a change is useless."""


class TaskTakenError(RefusedError):
    """Another actor holds these environments."""


class LearnerGoneError(_EndedError):
    """The learner cannot be reached (any more); it may come back."""


class NoFreeTaskError(LearnerGoneError):
    """Other actors hold all environments; one of them may leave."""


def _translate(code: grpc.StatusCode, details: str | None) -> Exception:
    """The exception above that matches the status of a failed call."""
    if code == grpc.StatusCode.ALREADY_EXISTS:
        return TaskTakenError(details)
    if code == grpc.StatusCode.UNIMPLEMENTED:
        return RefusedError(
            f"What listens on --server_address is not a learner of this actor's version ({details}); change "
            "the address or the version."
        )
    if code in _REFUSALS:
        return RefusedError(details or code.name)
    return LearnerGoneError(f"{code.name}: {details}")


class Stream:
    """One Act stream. At most one step may be unanswered. Belongs to the event loop that opened it."""

    def __init__(self, call: Any, codec: ActionCodec, num_envs: int):
        """Takes ownership of a call for `num_envs` environments, whose actions `codec` decodes."""
        self._call, self._codec = call, codec
        self._frame = actions_frame(num_envs * codec.action_bytes)

    async def introduce(self, hello: pb.Hello, timeout_secs: float) -> None:
        """Sends a hello and waits until the learner has accepted or refused it; `receive` reports which.

        Without the wait, a step could be on its way when the refusal arrives, and gRPC would lose the refusal
        because of the step that it could not send. A stream that fails here is closed.

        Raises:
          LearnerGoneError: no answer in time.
        """
        try:
            await asyncio.wait_for(self._introduce(hello), timeout_secs)
        except BaseException as error:
            self.close()
            if isinstance(error, asyncio.TimeoutError):
                raise LearnerGoneError(f"no answer to a hello within {timeout_secs:g} s") from None
            raise

    async def _introduce(self, hello: pb.Hello) -> None:
        await self.send(pb.ActRequest(hello=hello).SerializeToString())
        await self._call.initial_metadata()

    async def send(self, message: bytes) -> None:
        """Sends an ActRequest. Never fails: `receive` reports whatever is wrong with the stream."""
        with contextlib.suppress(grpc.RpcError, asyncio.InvalidStateError):
            await self._call.write(message)

    async def receive(self) -> np.ndarray | None:
        """Waits for the actions `[N, ...]`; None: training has ended.

        Raises:
          RefusedError: the learner ended the stream for good and said why.
          LearnerGoneError: the connection is lost.
        """
        try:
            data = await self._call.read()
        except grpc.RpcError:
            data = grpc.aio.EOF
        if data is grpc.aio.EOF:
            await self._check_end()
            return None
        actions = self._frame.payload(data)
        try:
            return self._codec.decode(pb.ActResponse.FromString(data).actions if actions is None else actions)
        except (DecodeError, ValueError) as error:
            raise LearnerGoneError(f"the learner's answer has no actions for this group: {error}") from None

    async def _check_end(self) -> None:
        """Raises the reason if the stream has ended before training has."""
        code = await self._call.code()
        if code != grpc.StatusCode.OK:
            raise _translate(code, await self._call.details())

    def close(self) -> None:
        """Ends the stream; safe to call twice."""
        self._call.cancel()


class Connection:
    """A channel to the learner. Belongs to the event loop in which it was made.

    Attributes:
      address: unix:PATH or HOST:PORT.
    """

    def __init__(self, address: str, security: Security = Security()):  # noqa: B008 (immutable)
        """Prepares a connection to `address` (unix:PATH or HOST:PORT); nothing is sent yet."""
        options = [
            *channel_options(-1),  # The learner enforces the size limit.
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.initial_reconnect_backoff_ms", 200),
            ("grpc.max_reconnect_backoff_ms", 1_000),  # A learner may be up for a few seconds only.
        ]
        self.address, self._security = address, security
        self._channel = security.channel(address, options)
        self._metadata = security.metadata()
        self._stub = InferenceStub(self._channel)
        self._act = self._channel.stream_stream(f"/{SERVICE}/Act")  # Its messages are bytes: see wire.frames.

    async def lease_task(self, actor_id: int, num_envs: int, task: int, timeout_secs: float) -> pb.TaskLease:
        """Waits for the learner, and asks it for a task that no other actor has.

        Args:
          actor_id: of this process.
          num_envs: environments of this actor.
          task: the task that it had before; -1: none.
          timeout_secs: longest wait for an answer.

        Raises:
          NoFreeTaskError: there is no task now.
          RefusedError: there will be no task for an actor of this size, or the token is wrong.
          LearnerGoneError: no answer in time.
        """
        request = pb.LeaseRequest(run_id=actor_id, num_envs=num_envs, task=task)
        try:
            return await self._call(self._stub.LeaseTask, request, timeout_secs)
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED:
                raise NoFreeTaskError(error.details()) from None
            raise _translate(error.code(), error.details()) from None

    async def check(self, environment: EnvironmentDescription, timeout_secs: float) -> pb.Description:
        """Waits for the learner to answer Describe, and compares its environments with ours.

        Raises:
          RefusedError: protocol version, environment, settings or specs differ; the message says which.
          LearnerGoneError: no answer in time.
        """
        try:
            description = await self._call(self._stub.Describe, pb.DescribeRequest(), timeout_secs)
        except grpc.RpcError as error:
            raise _translate(error.code(), error.details()) from None
        if description.protocol_version != PROTOCOL_VERSION:
            raise RefusedError(
                f"The learner speaks protocol version {description.protocol_version} and this actor version "
                f"{PROTOCOL_VERSION}: install the same seed_rl on both."
            )
        found = differences(make_hello(environment), description)
        if found:
            raise RefusedError(
                f"This actor does not match the learner ({'; '.join(found)}): start both with the same flags."
            )
        return description

    async def open(
        self, environment: EnvironmentDescription, hello: pb.Hello, timeout_secs: float = HELLO_SECS
    ) -> Stream:
        """Opens the stream of one environment group, and introduces the group.

        Raises:
          LearnerGoneError: no answer in time.
        """
        stream = Stream(
            self._act(metadata=self._metadata), ActionCodec(environment.spec.action), hello.num_envs
        )
        await stream.introduce(hello, timeout_secs)
        return stream

    async def open_all(
        self,
        environment: EnvironmentDescription,
        hellos: Iterable[pb.Hello],
        timeout_secs: float = HELLO_SECS,
    ) -> list[Stream]:
        """Opens the streams of an actor's groups: all of them or, if one fails, none.

        Raises:
          LearnerGoneError: no answer in time.
        """
        streams: list[Stream] = []
        try:
            for hello in hellos:
                streams.append(await self.open(environment, hello, timeout_secs))
        except BaseException:
            for stream in streams:
                stream.close()
            raise
        return streams

    async def close(self) -> None:
        """Closes the channel and with it every stream."""
        await self._channel.close()

    async def _call(self, method: Any, request: Any, timeout_secs: float) -> Any:
        """Calls a method as soon as the learner listens; does not wait for one that TLS can never reach."""
        calling = asyncio.ensure_future(self._call_when_ready(method, request, timeout_secs))
        failing = asyncio.ensure_future(why_unusable(self._channel, self.address, self._security))
        try:
            await asyncio.wait((calling, failing), return_when=asyncio.FIRST_COMPLETED)
            if not calling.done():
                raise RefusedError(await failing)
            return await calling
        finally:
            calling.cancel()
            failing.cancel()

    async def _call_when_ready(self, method: Any, request: Any, timeout_secs: float) -> Any:
        try:
            return await method(request, timeout=timeout_secs, wait_for_ready=True, metadata=self._metadata)
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.DEADLINE_EXCEEDED:
                raise
        # Without waiting, gRPC reports what is wrong: the certificate, or that nothing listens there.
        return await method(request, timeout=_PROBE_SECS, metadata=self._metadata)


def make_hello(environment: EnvironmentDescription, **fields: Any) -> pb.Hello:
    """A Hello for these environments; `fields`: run_id, task, first_env, num_envs."""
    message = pb.Hello(protocol_version=PROTOCOL_VERSION, **fields)
    environment.describe_into(message)
    return message
