"""How an actor plays, and what carries its steps: messages, or memory that it shares with the learner."""

import asyncio
import collections
import contextlib
import time
from collections.abc import Sequence
from typing import Protocol

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

# The latencies that statistics are made of: the latest ones.
_MOST_LATENCIES = 20_000


class Carrier(Protocol):
    """Takes the steps of groups, and brings the actions in response to them."""

    async def send(self, group: int, episodes: Sequence[pb.Episode]) -> None:
        """Takes a group's newest step with the episodes that ended with it; never fails."""

    async def receive(self) -> Sequence[tuple[int, memoryview | bytes]]:
        """Waits for actions: the number of a group, and the bytes.

        Raises:
          TrainingEndedError, RefusedError, LearnerGoneError: the connection has ended.
        """

    async def close(self) -> None:
        """Frees what it has."""


class Latency:
    """How long groups wait for their actions (SEED RL, 2020, Table 13)."""

    def __init__(self) -> None:
        self._sent: dict[int, float] = {}
        self._seconds: collections.deque[float] = collections.deque(maxlen=_MOST_LATENCIES)

    def sent(self, group: int) -> None:
        """Notes that a group has a new step."""
        self._sent[group] = time.perf_counter()

    def answered(self, group: int) -> None:
        """Notes that a group has got its actions."""
        self._seconds.append(time.perf_counter() - self._sent[group])

    def __str__(self) -> str:
        if not self._seconds:
            return "No actions came."
        p50, p99 = 1e3 * np.percentile(list(self._seconds), [50, 99])
        mean = 1e3 * float(np.mean(self._seconds))
        return f"From a step to its actions: {p50:.3f} ms (median), {mean:.3f} ms (mean), {p99:.3f} ms (p99)."


async def play(groups: Sequence[Group], carrier: Carrier, action: ActionCodec, latency: Latency) -> None:
    """Sends the newest step of each group, and plays until the connection ends with an error of `receive`.

    Episodes that ended with these steps are not sent again: they were sent when the steps were new.
    """
    for number in range(len(groups)):
        latency.sent(number)
        await carrier.send(number, ())
    while True:
        for number, data in await carrier.receive():
            if number >= len(groups):
                raise LearnerGoneError(f"the learner sent actions for group {number}, which there is not")
            num_envs = groups[number].environment.num_envs
            if len(data) != num_envs * action.action_bytes:
                raise LearnerGoneError(f"the learner sent {len(data)} bytes as actions of {num_envs} envs")
            latency.answered(number)
            episodes = groups[number].step(action.decode(data))
            latency.sent(number)
            await carrier.send(number, episodes)


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

    async def close(self) -> None:
        """Nothing to do: the stream belongs to its channel."""


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
