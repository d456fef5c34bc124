"""The two messages of every step as bytes, without protobuf objects, which would copy their arrays.

The bytes before the arrays of such a message depend only on the arrays' size, so they are built once per
stream. An actor in another language can simply use protobuf: the bytes are the same.
"""

from collections.abc import Sequence

import numpy as np
from google.protobuf.message import Message

from seed_rl.types import EnvironmentSpec
from seed_rl.wire.codec import StepCodec
from seed_rl.wire.generated import inference_pb2 as pb


class Frame:
    """Messages of one kind that end with the same number of raw bytes.

    Attributes:
      prefix: the bytes before them.
    """

    def __init__(self, message: Message, num_bytes: int):
        """Takes the prefix from a message that ends with `num_bytes` raw bytes."""
        data = message.SerializeToString()
        self.prefix = data[: len(data) - num_bytes]
        self._size = len(data)

    def payload(self, data: bytes) -> memoryview | None:
        """The raw bytes of a message; None if it is of another kind or size."""
        if len(data) != self._size or not data.startswith(self.prefix):
            return None
        return memoryview(data)[len(self.prefix) :]


def step_frame(num_bytes: int) -> Frame:
    """The frame of an ActRequest with a step of `num_bytes` bytes in which no episode ended."""
    return Frame(pb.ActRequest(step=pb.Step(records=bytes(num_bytes))), num_bytes)


def actions_frame(num_bytes: int) -> Frame:
    """The frame of an ActResponse with actions of `num_bytes` bytes."""
    return Frame(pb.ActResponse(actions=bytes(num_bytes)), num_bytes)


class StepMessage:
    """An ActRequest with one step of N environments that is written in place.

    Attributes:
      records: its records, uint8.
      output: EnvOutput `[N, ...]`; its arrays are the same bytes.
    """

    def __init__(self, spec: EnvironmentSpec, num_envs: int):
        """Prepares a message of zeros for environments of this spec."""
        codec = StepCodec(spec)
        num_bytes = num_envs * codec.record_bytes
        prefix = np.frombuffer(step_frame(num_bytes).prefix, np.uint8)
        self._data = np.concatenate([prefix, np.zeros(num_bytes, np.uint8)])
        self.records = self._data[len(prefix) :]
        self.output = codec.decode(self.records)

    def to_bytes(self, episodes: Sequence[pb.Episode] = ()) -> bytes:
        """The message as it is now, with the episodes that ended with this step."""
        if not episodes:
            return self._data.tobytes()
        request = pb.ActRequest()  # Filled in place: a Step given to the constructor would be copied.
        request.step.records = self.records.tobytes()
        request.step.episodes.extend(episodes)
        return request.SerializeToString()
