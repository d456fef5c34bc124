"""The actor's end of the wire: a connection, and one stream of steps and actions per environment group."""

import queue
from typing import Any

import grpc
import numpy as np

from seed_rl.types import EnvOutput
from seed_rl.wire.codec import ActionCodec, StepCodec
from seed_rl.wire.generated import inference_pb2 as pb
from seed_rl.wire.generated.inference_pb2_grpc import InferenceStub
from seed_rl.wire.protocol import (
    PROTOCOL_VERSION,
    EnvironmentIdentity,
    channel_options,
    differences,
    max_message_bytes,
)

_REFUSALS = {
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.OUT_OF_RANGE,
    grpc.StatusCode.ALREADY_EXISTS,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.UNIMPLEMENTED,
}


class RefusedError(Exception):
    """The learner refuses this actor; the message is its sentence. Coming back unchanged is no use."""


class LearnerGoneError(Exception):
    """The learner cannot be reached (any more); it may come back."""


def translate(error: grpc.RpcError) -> Exception:
    """A gRPC error as one of the two above."""
    if error.code() in _REFUSALS:
        return RefusedError(error.details() or error.code().name)
    return LearnerGoneError(f"{error.code().name}: {error.details()}")


class Stream:
    """One Act stream. At most one step is unanswered; `send` returns at once, `receive` waits."""

    def __init__(
        self, stub: InferenceStub, hello: pb.Hello, step_codec: StepCodec, action_codec: ActionCodec
    ):
        """Opens the stream and introduces this actor's group."""
        self._step_codec, self._action_codec = step_codec, action_codec
        self._requests: queue.SimpleQueue[pb.ActRequest | None] = queue.SimpleQueue()
        self._requests.put(pb.ActRequest(hello=hello))
        self._responses = stub.Act(iter(self._requests.get, None))

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
    """A channel to the learner, with the sizes and options that the environments need."""

    def __init__(self, address: str, identity: EnvironmentIdentity, num_envs_per_message: int):
        """Prepares a connection to `address` (unix:PATH or HOST:PORT); nothing is sent yet."""
        self._identity = identity
        self._step_codec = StepCodec(identity.spec)
        self._action_codec = ActionCodec(identity.spec.action)
        limit = max_message_bytes(self._step_codec.record_bytes, num_envs_per_message)
        options = [
            *channel_options(limit),
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.initial_reconnect_backoff_ms", 200),
            ("grpc.max_reconnect_backoff_ms", 1_000),  # A learner may be up for a few seconds only.
        ]
        self._channel = grpc.insecure_channel(address, options, grpc.Compression.NoCompression)
        self._stub = InferenceStub(self._channel)

    def check(self, timeout_secs: float) -> pb.Description:
        """Waits for the learner to answer Describe, and compares its environments with ours.

        Raises:
          RefusedError: protocol version, environment, settings or specs differ; the sentence says which.
          LearnerGoneError: no answer in time.
        """
        try:
            description = self._stub.Describe(pb.DescribeRequest(), timeout=timeout_secs, wait_for_ready=True)
        except grpc.RpcError as error:
            raise translate(error) from None
        if description.protocol_version != PROTOCOL_VERSION:
            raise RefusedError(
                f"The learner speaks protocol version {description.protocol_version} and this actor version "
                f"{PROTOCOL_VERSION}: install the same seed_rl on both."
            )
        mine = self.hello(run_id=0, task=0, first_env=0, num_envs=0)
        found = differences(mine, description)
        if found:
            raise RefusedError(
                f"This actor does not fit the learner ({'; '.join(found)}): start both with the same flags."
            )
        return description

    def hello(self, **fields: Any) -> pb.Hello:
        """A Hello of these environments; `fields`: run_id, task, first_env, num_envs."""
        message = pb.Hello(protocol_version=PROTOCOL_VERSION, **fields)
        self._identity.describe_into(message)
        return message

    def open(self, hello: pb.Hello) -> Stream:
        """Opens the stream of one environment group."""
        return Stream(self._stub, hello, self._step_codec, self._action_codec)

    def close(self) -> None:
        """Closes the channel and with it every stream."""
        self._channel.close()
