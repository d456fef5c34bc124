"""The two messages of every step as bytes, without protobuf objects, which would copy their arrays.

The bytes before the arrays of such a message depend only on its group and the arrays' size, so they are built
once per connection. An actor in another language can simply use protobuf: the bytes are the same.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence

import numpy as np
from google.protobuf.message import Message

from seed_rl.types import EnvironmentSpec
from seed_rl.wire.codec import StepCodec
from seed_rl.wire.generated import inference_pb2 as pb


class Frames:
    """Messages of one group of a connection each, which end with the same number of raw bytes.

    Protobuf reads several of them, one after the other, as one message with what is in all.

    Attributes:
      prefixes: the bytes before the raw ones, by group.
    """

    def __init__(self, make: Callable[[int, bytes], Message], num_groups: int, num_bytes: int):
        """Takes the prefixes from the messages that `make` makes of a group and `num_bytes` raw bytes."""
        messages = [make(group, bytes(num_bytes)).SerializeToString() for group in range(num_groups)]
        self.prefixes = [message[: len(message) - num_bytes] for message in messages]
        self._groups = {prefix: group for group, prefix in enumerate(self.prefixes)}
        self._make, self._num_bytes = make, num_bytes
        self._head, self._size = len(self.prefixes[0]), len(messages[0])

    def message(self, group: int, data: bytes) -> bytes:
        """The message of a group with these raw bytes, whose number may also be another one."""
        if len(data) == self._num_bytes:
            return self.prefixes[group] + data
        return self._make(group, data).SerializeToString()

    def split(self, data: bytes) -> list[tuple[int, memoryview]] | None:
        """The groups in a message and their raw bytes; None if it is of another kind or size."""
        head, size, view = self._head, self._size, memoryview(data)
        found = []
        for begin in range(0, len(data), size):
            group = self._groups.get(data[begin : begin + head])
            if group is None or begin + size > len(data):
                return None
            found.append((group, view[begin + head : begin + size]))
        return found or None


def step_frames(num_groups: int, num_bytes: int) -> Frames:
    """The frames of steps of `num_bytes` bytes in which no episode ended."""
    return Frames(
        lambda group, data: pb.FromActor(steps=[pb.Step(group=group, records=data)]), num_groups, num_bytes
    )


def actions_frames(num_groups: int, num_bytes: int) -> Frames:
    """The frames of actions of `num_bytes` bytes."""
    return Frames(
        lambda group, data: pb.FromLearner(actions=[pb.Actions(group=group, actions=data)]),
        num_groups,
        num_bytes,
    )


class StepMessage:
    """The message of a group's step, which is written in place.

    Attributes:
      records: uint8, the records of N environments.
    """

    def __init__(self, spec: EnvironmentSpec, num_envs: int, group: int = 0):
        """Prepares a message of zeros for environments of this spec."""
        self._group = group
        num_bytes = num_envs * StepCodec(spec).record_bytes
        prefix = np.frombuffer(step_frames(group + 1, num_bytes).prefixes[group], np.uint8)
        self._data = np.concatenate([prefix, np.zeros(num_bytes, np.uint8)])
        self.records = self._data[len(prefix) :]

    def to_bytes(self, episodes: Sequence[pb.Episode] = ()) -> bytes:
        """The message as it is now, with the episodes that ended with this step."""
        if not episodes:
            return self._data.tobytes()
        message = pb.FromActor()  # Filled in place: a Step given to the constructor would be copied.
        step = message.steps.add()
        step.group, step.records = self._group, self.records.tobytes()
        step.episodes.extend(episodes)
        return message.SerializeToString()


class Outgoing:
    """Messages that wait to be sent over a stream. Belongs to the event loop.

    Those that come while others are being sent become one message.
    """

    def __init__(self, write: Callable[[bytes], Awaitable[None]]):
        """Starts empty; `write` sends a message, and never fails."""
        self._write = write
        self._waiting: list[bytes] = []
        self._writing: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def extend(self, messages: Iterable[bytes]) -> None:
        """Sends messages soon."""
        self._waiting.extend(messages)
        if self._writing is None or self._writing.done():
            self._writing = asyncio.ensure_future(self._send())

    def clear(self) -> None:
        """Drops what is not being sent yet."""
        self._waiting.clear()

    async def _send(self) -> None:
        while waiting := self._waiting:
            self._waiting = []
            await self._write(b"".join(waiting))
