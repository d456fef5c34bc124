"""The actor's end of the wire: a connection, and one stream of steps and actions per environment group."""

import queue
from typing import Any

import grpc
import numpy as np

from seed_rl.types import EnvOutput
from seed_rl.wire.codec import ActionCodec, StepCodec
from seed_rl.wire.generated import inference_pb2 as pb
from seed_rl.wire.generated.inference_pb2_grpc import InferenceStub
from seed_rl.wire.protocol import PROTOCOL_VERSION, EnvironmentIdentity, channel_options, differences
from seed_rl.wire.security import Security

_PROBE_SECS = 5.0

_REFUSALS = {
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.OUT_OF_RANGE,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.UNIMPLEMENTED,
}


class RefusedError(Exception):
    """The learner refuses this actor; the message is its sentence. Coming back unchanged is no use."""


class TaskTakenError(RefusedError):
    """Another actor has these environments."""


class LearnerGoneError(Exception):
    """The learner cannot be reached (any more); it may come back."""


class NoFreeTaskError(LearnerGoneError):
    """Other actors have all environments; one of them may leave."""


def translate(error: grpc.RpcError) -> Exception:
    """A gRPC error as one of those above."""
    if error.code() == grpc.StatusCode.ALREADY_EXISTS:
        return TaskTakenError(error.details())
    if error.code() in _REFUSALS:
        return RefusedError(error.details() or error.code().name)
    return LearnerGoneError(f"{error.code().name}: {error.details()}")


class Stream:
    """One Act stream. At most one step is unanswered; `send` returns at once, `receive` waits."""

    def __init__(
        self,
        stub: InferenceStub,
        metadata: list[tuple[str, str]],
        hello: pb.Hello,
        step_codec: StepCodec,
        action_codec: ActionCodec,
    ):
        """Opens the stream and introduces this actor's group."""
        self._step_codec, self._action_codec = step_codec, action_codec
        self._requests: queue.SimpleQueue[pb.ActRequest | None] = queue.SimpleQueue()
        self._requests.put(pb.ActRequest(hello=hello))
        self._responses = stub.Act(iter(self._requests.get, None), metadata=metadata)

    def send(self, output: EnvOutput, episodes: list[pb.Episode]) -> None:
        """Sends one agent step `[N, ...]` of the group."""
        request = pb.ActRequest()  # Filled in place: a Step given to the constructor would be copied.
        request.step.records = self._step_codec.encode(output)
        request.step.episodes.extend(episodes)
        self._requests.put(request)

    def receive(self) -> np.ndarray | None:
        """Waits for the actions `[N, ...]`; None: training has ended.

        Raises:
          RefusedError: the learner ended the stream for good and said why.
          LearnerGoneError: the connection is lost.
        """
        try:
            response = next(self._responses, None)
        except grpc.RpcError as error:
            raise translate(error) from None
        return None if response is None else self._action_codec.decode(response.actions)

    def close(self) -> None:
        """Ends the stream; safe to call twice."""
        self._responses.cancel()
        self._requests.put(None)


class Connection:
    """A channel to the learner."""

    def __init__(self, address: str, security: Security = Security()):  # noqa: B008 (immutable)
        """Prepares a connection to `address` (unix:PATH or HOST:PORT); nothing is sent yet."""
        options = [
            *channel_options(-1),  # The learner is the one that refuses what is too large.
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.initial_reconnect_backoff_ms", 200),
            ("grpc.max_reconnect_backoff_ms", 1_000),  # A learner may be up for a few seconds only.
        ]
        self._channel = security.channel(address, options)
        self._metadata = security.metadata()
        self._stub = InferenceStub(self._channel)

    def lease_task(self, run_id: int, num_envs: int, task: int, timeout_secs: float) -> pb.TaskLease:
        """Waits for the learner, and asks it for a task that no other actor has.

        Args:
          run_id: of this process.
          num_envs: environments of this actor.
          task: what it had before; -1: none.
          timeout_secs: longest wait for an answer.

        Raises:
          NoFreeTaskError: there is none now.
          RefusedError: there will be none for an actor of this size, or the token is wrong.
          LearnerGoneError: no answer in time.
        """
        request = pb.LeaseRequest(run_id=run_id, num_envs=num_envs, task=task)
        try:
            return self._call(self._stub.LeaseTask, request, timeout_secs)
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED:
                raise NoFreeTaskError(error.details()) from None
            raise translate(error) from None

    def check(self, identity: EnvironmentIdentity, timeout_secs: float) -> pb.Description:
        """Waits for the learner to answer Describe, and compares its environments with ours.

        Raises:
          RefusedError: protocol version, environment, settings or specs differ; the sentence says which.
          LearnerGoneError: no answer in time.
        """
        try:
            description = self._call(self._stub.Describe, pb.DescribeRequest(), timeout_secs)
        except grpc.RpcError as error:
            raise translate(error) from None
        if description.protocol_version != PROTOCOL_VERSION:
            raise RefusedError(
                f"The learner speaks protocol version {description.protocol_version} and this actor version "
                f"{PROTOCOL_VERSION}: install the same seed_rl on both."
            )
        found = differences(make_hello(identity), description)
        if found:
            raise RefusedError(
                f"This actor does not fit the learner ({'; '.join(found)}): start both with the same flags."
            )
        return description

    def open(self, identity: EnvironmentIdentity, hello: pb.Hello) -> Stream:
        """Opens the stream of one environment group."""
        codecs = StepCodec(identity.spec), ActionCodec(identity.spec.action)
        return Stream(self._stub, self._metadata, hello, *codecs)

    def close(self) -> None:
        """Closes the channel and with it every stream."""
        self._channel.close()

    def _call(self, method: Any, request: Any, timeout_secs: float) -> Any:
        """Calls a method as soon as the learner listens."""
        try:
            return method(request, timeout=timeout_secs, wait_for_ready=True, metadata=self._metadata)
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.DEADLINE_EXCEEDED:
                raise
        # Whoever waits is not told what went wrong; whoever does not is: a certificate, or nobody there.
        return method(request, timeout=_PROBE_SECS, metadata=self._metadata)


def make_hello(identity: EnvironmentIdentity, **fields: Any) -> pb.Hello:
    """A Hello of these environments; `fields`: run_id, task, first_env, num_envs."""
    message = pb.Hello(protocol_version=PROTOCOL_VERSION, **fields)
    identity.describe_into(message)
    return message
