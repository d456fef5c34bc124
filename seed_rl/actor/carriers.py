"""Carriers of an actor's steps: messages, or memory that it shares with the learner."""

import collections
import time
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from seed_rl.actor.group import Group
from seed_rl.types import EnvironmentSpec
from seed_rl.wire.client import LearnerGoneError, Stream, parsed
from seed_rl.wire.codec import ActionCodec
from seed_rl.wire.frames import StepMessage, actions_frames
from seed_rl.wire.generated import inference_pb2 as pb
from seed_rl.wire.shared_memory import END, EPISODES, MemoryLink

# The longest wait for actions, after which the actor shows that it is not stuck, and waits again.
QUIET_SECS = 1.0

# Time limit of the reason for the end of a connection, from its announcement.
_REASON_SECS = 10.0

# The latencies that statistics are made of: the latest ones.
_MOST_LATENCIES = 20_000


class Transport(Protocol):
    """Takes the steps of groups, and brings the actions in response to them."""

    def send(self, group: int, episodes: Sequence[pb.Episode]) -> None:
        """Takes a group's newest step with the episodes that ended with it; never fails."""

    def receive(self) -> Sequence[tuple[int, memoryview | bytes]]:
        """Waits for actions: the number of a group, and the bytes; for about a second if there are none.

        Raises:
          TrainingEndedError, RefusedError, LearnerGoneError: the connection has ended.
        """


class Latency:
    """Latency from a group's step to its actions (SEED RL, 2020, Table 13)."""

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


def play(
    groups: Sequence[Group],
    carrier: Transport,
    action: ActionCodec,
    latency: Latency,
    on_progress: Callable[[], None] = lambda: None,
) -> None:
    """Sends the newest step of each group, and plays until the connection ends with an error of `receive`.

    Episodes that ended with these steps are not sent again: they were sent when the steps were new. Calls
    `on_progress` before each step, and every second or so.
    """
    for number in range(len(groups)):
        latency.sent(number)
        carrier.send(number, ())
    while True:
        found = carrier.receive()
        on_progress()
        for number, data in found:
            if number >= len(groups):
                raise LearnerGoneError(f"the learner sent actions for group {number}, which there is not")
            num_envs = groups[number].environment.num_envs
            if len(data) != num_envs * action.action_bytes:
                raise LearnerGoneError(f"the learner sent {len(data)} bytes as actions of {num_envs} envs")
            latency.answered(number)
            episodes = groups[number].step(action.decode(data))
            latency.sent(number)
            carrier.send(number, episodes)
            on_progress()


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

    def send(self, group: int, episodes: Sequence[pb.Episode]) -> None:
        """Sends a group's newest step with the episodes that ended with it; never fails."""
        self._stream.send(self._messages[group].to_bytes(episodes))

    def receive(self) -> Sequence[tuple[int, memoryview | bytes]]:
        """Waits for actions; see `Transport.receive`."""
        data = self._stream.receive(QUIET_SECS)
        if data is None:
            return ()
        if found := self._frames.split(data):
            return found
        return [(actions.group, actions.actions) for actions in parsed(data).actions]


class Memory:
    """Steps and actions in shared memory, whose socket it waits on; the stream only reports the end."""

    def __init__(self, stream: Stream, link: MemoryLink, groups: Sequence[Group]):
        """Lets the groups write into shared memory from now on."""
        self._stream, self._link = stream, link
        for group, part in zip(groups, link.parts, strict=True):
            group.write_to(np.frombuffer(part.records, np.uint8))

    def send(self, group: int, episodes: Sequence[pb.Episode]) -> None:
        """Sends a group's newest step, as `Messages.send` does."""
        if episodes:
            self._link.parts[group].write_episodes(episodes)
        self._link.send([group | EPISODES if episodes else group])

    def receive(self) -> Sequence[tuple[int, memoryview | bytes]]:
        """Waits for actions; see `Transport.receive`."""
        numbers = self._link.wait()
        is_over = numbers is None or END in numbers
        if is_over or not numbers:
            data = self._stream.receive(_REASON_SECS if is_over else 0.0)
            if data is not None:
                raise LearnerGoneError(f"the learner sent {len(data)} bytes instead of the end")
            if is_over:
                raise LearnerGoneError("the learner closed its end of the shared memory")
        parts = self._link.parts
        return [(n, bytes(parts[n].actions) if n < len(parts) else b"") for n in numbers or ()]

    def close(self) -> None:
        """Ends the use of the memory."""
        self._link.close()
