"""How an actor plays, and what carries its steps: messages, or memory that it shares with the learner."""

import asyncio
import contextlib
import time
from collections.abc import Sequence

import numpy as np

from seed_rl.actor.group import Group
from seed_rl.types import EnvironmentSpec
from seed_rl.wire.client import LearnerGoneError, Stream, parsed
from seed_rl.wire.codec import ActionCodec
from seed_rl.wire.frames import Outgoing, StepMessage, actions_frames
from seed_rl.wire.generated import inference_pb2 as pb
from seed_rl.wire.shared_memory import END, EPISODES, MemoryLink

# How often the event loop gets its turn while actions keep coming through shared memory, or do not.
_TURN_SECS = 0.1

# How long the reason for the end of a connection may take after it was announced.
_REASON_SECS = 10.0


async def play(groups: Sequence[Group], carrier: "Messages | Memory", action: ActionCodec) -> None:
    """Sends the newest step of each group, and plays until the connection ends with an error of `receive`.

    Episodes that ended with these steps are not sent again: they were sent when the steps were new.
    """
    for number in range(len(groups)):
        await carrier.send(number, ())
    while True:
        for number, data in await carrier.receive():
            if number >= len(groups):
                raise LearnerGoneError(f"the learner sent actions for group {number}, which there is not")
            num_envs = groups[number].environment.num_envs
            if len(data) != num_envs * action.action_bytes:
                raise LearnerGoneError(f"the learner sent {len(data)} bytes as actions of {num_envs} envs")
            await carrier.send(number, groups[number].step(action.decode(data)))


class Messages:
    """Steps and actions as messages of a stream."""

    def __init__(self, stream: Stream, groups: Sequence[Group], spec: EnvironmentSpec):
        """Lets the groups write into messages from now on."""
        size = groups[0].environment.num_envs
        self._stream = stream
        self._messages = [StepMessage(spec, size, number) for number in range(len(groups))]
        for group, message in zip(groups, self._messages, strict=True):
            group.write_to(message.records)
        self._frames = actions_frames(len(groups), size * ActionCodec(spec.action).action_bytes)
        self._outgoing = Outgoing(stream.send)

    async def send(self, group: int, episodes: Sequence[pb.Episode]) -> None:
        """Sends a group's newest step with the episodes that ended with it; never fails.

        Steps that are written while others are being sent become one message.
        """
        self._outgoing.extend((self._messages[group].to_bytes(episodes),))
        await asyncio.sleep(0)

    async def receive(self) -> Sequence[tuple[int, memoryview | bytes]]:
        """Waits for actions: the number of a group, and the bytes.

        Raises:
          TrainingEndedError, RefusedError, LearnerGoneError: the connection has ended.
        """
        data = await self._stream.receive()
        if found := self._frames.split(data):
            return found
        return [(actions.group, actions.actions) for actions in parsed(data).actions]


class Memory:
    """Steps and actions in shared memory. Waits for wake-ups itself: an event loop wakes up later."""

    def __init__(self, stream: Stream, link: MemoryLink, groups: Sequence[Group]):
        """Lets the groups write into shared memory from now on; the stream only reports the end."""
        self._link, self._end = link, asyncio.ensure_future(stream.receive())
        for group, part in zip(groups, link.parts, strict=True):
            group.write_to(np.frombuffer(part.records, np.uint8))
        self._next_turn = time.monotonic() + _TURN_SECS

    async def send(self, group: int, episodes: Sequence[pb.Episode]) -> None:
        """Sends a group's newest step, as `Messages.send` does."""
        if episodes:
            self._link.parts[group].write_episodes(episodes)
        self._link.send([group | EPISODES if episodes else group])

    async def receive(self) -> Sequence[tuple[int, memoryview | bytes]]:
        """Waits for actions, as `Messages.receive` does."""
        while True:
            numbers = self._link.wait(_TURN_SECS)
            if numbers is None or END in numbers:
                await asyncio.wait((self._end,), timeout=_REASON_SECS)
                if not self._end.done():
                    raise LearnerGoneError("the learner closed its end of the shared memory")
            elif (now := time.monotonic()) >= self._next_turn:
                self._next_turn = now + _TURN_SECS
                await asyncio.sleep(0)
            if self._end.done():
                raise LearnerGoneError(f"the learner sent {len(self._end.result())} bytes instead of the end")
            if numbers:
                parts = self._link.parts
                return [(n, bytes(parts[n].actions) if n < len(parts) else b"") for n in numbers]

    async def close(self) -> None:
        """Ends the wait for the end of the stream, and the use of the memory."""
        self._end.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await self._end
        self._link.close()
