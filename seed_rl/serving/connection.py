"""Connection of an actor process: the rules of its protocol. No TensorFlow.

An actor sends Join, and gets a Welcome with a task; sends Ready when it has made its environments; and then
sends a step of each of its groups, and the next one when the actions for the last one have come
(protos/inference.proto). Carriers pass on what comes, and send the answers.
Peers that connect and send nothing are limited.
"""

import asyncio
import collections
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import grpc
import numpy as np

from seed_rl.messages import log_failure, one_line
from seed_rl.serving.batcher import Batcher
from seed_rl.serving.request import Answer, BadStep, Episode, Request, ServedGroup
from seed_rl.serving.tasks import Task
from seed_rl.types import EnvironmentSpec
from seed_rl.wire.codec import RecordSize, StepCodec
from seed_rl.wire.generated import inference_pb2 as pb
from seed_rl.wire.ranges import first_problem, problem


class Limits(NamedTuple):
    """Limits on the time that peers may be silent, and on their number.

    All are short enough that a new actor gets in within 10 s of the last such peer.
    Well-behaved clients send their Join with the stream.

    Attributes:
      join_secs: how long a stream may stay open without its Join.
      spare_streams: how many streams without a Join are allowed, besides one for each environment.
      handshake_secs: how long a connection may take for its TLS and HTTP/2 handshakes.
      idle_secs: how long a connection may stay open without a call.
    """

    join_secs: float = 5.0
    spare_streams: int = 64
    handshake_secs: float = 5.0
    idle_secs: float = 3.0


class FirstMessages:
    """Waits for the first messages of streams. Belongs to one event loop."""

    def __init__(self, timeout_secs: float, max_streams: int):
        """Waits at most `timeout_secs` for each of at most `max_streams` at a time."""
        self._timeout_secs, self._max_streams = timeout_secs, max_streams
        self._waiting: dict[asyncio.Future[Any], None] = {}  # The oldest first.

    async def first(self, read: Coroutine[Any, Any, Any]) -> Any:
        """The message from `read`. One stream too many ends the oldest: good clients send Join at once.

        Raises:
          Refusal: nothing arrived in time, or before there were too many streams; the actor may come
            again.
        """
        message = asyncio.ensure_future(read)
        self._waiting[message] = None
        if len(self._waiting) > self._max_streams:
            oldest = next(iter(self._waiting))
            del self._waiting[oldest]  # Now: more of them may come before it is gone.
            oldest.cancel()
        try:
            await asyncio.wait([message], timeout=self._timeout_secs)
            if message.cancelled():
                raise Refusal(
                    grpc.StatusCode.UNAVAILABLE,
                    "Too many streams are waiting without a Join; connect again.",
                )
            if not message.done():
                raise Refusal(
                    grpc.StatusCode.DEADLINE_EXCEEDED,
                    f"No Join came within {self._timeout_secs:g} s; send it as soon as the stream is open.",
                )
            return message.result()
        finally:
            self._waiting.pop(message, None)
            message.cancel()


_INVALID = grpc.StatusCode.INVALID_ARGUMENT


class Refusal(Exception):
    """Ends a connection with a status and a one-sentence message."""

    def __init__(self, code: grpc.StatusCode, sentence: str):
        super().__init__(sentence)
        self.code = code


# Called once, by any thread, with the reason for the end of a connection (None: training is complete, or the
# process has gone).
OnEnd = Callable[[Refusal | None], None]


class Carrier(Protocol):
    """Carrier of answers to an actor: a stream of messages, or shared memory.

    Attributes:
      is_direct: whether any thread may call `send`; otherwise only the server's event loop.
    """

    is_direct: bool

    def begin(self, batcher: Batcher[Request]) -> None:
        """Takes steps from now on, most of them for this batcher."""

    def send(self, answers: Sequence[tuple[int, bytes]]) -> None:
        """Sends the actions of groups, by number; never fails."""

    def close(self) -> None:
        """Frees what it has; a second call does nothing."""


# A step of a group: its number, the records, and the episodes that ended with it.
Step = tuple[int, bytes | memoryview, Sequence[pb.Episode]]


class _GroupState:
    """A group of a connection, and what it waits for."""

    def __init__(self, group: ServedGroup, batcher: Batcher[Request], applied: int):
        self.group, self.batcher, self.client = group, batcher, batcher.connect()
        self.applied: int | None = applied  # None after the first step.
        self.is_waiting = False
        self.episodes: Sequence[pb.Episode] = ()


class Connection:
    """A connection, from its Join on. `steps` belongs to one thread at a time; the rest is thread-safe.

    Attributes:
      task: the environments that its process has.
      process_id: of its process.
      num_groups: the number of its groups.
      memory: its shared memory; None until the process has connected to it.
      agent_steps: those of all its environments that have come.
      last_seen: when one came last, or when it joined, by `time.monotonic`.
    """

    def __init__(
        self,
        task: Task,
        join: pb.Join,
        spec: EnvironmentSpec,
        size: RecordSize,
        on_episodes: Callable[[list[Episode]], None],
        on_end: Callable[["Connection", Refusal | None], None],
    ):
        """Gives a process its task.

        Args:
          task: the environments.
          join: message of the process.
          spec: of the environments.
          size: of its requests, which are steps or unrolls.
          on_episodes: called with finished episodes.
          on_end: called once, by any thread, with the reason (None: training is complete, or the process has
            gone).
        """
        self.task, self.process_id, self.num_groups = task, join.process_id, join.num_groups
        self.memory: Carrier | None = None
        self.agent_steps, self.last_seen = 0, time.monotonic()
        self._group_size = join.num_envs // join.num_groups
        self._codec, self._size = StepCodec(spec), size
        self._on_episodes, self._on_end = on_episodes, on_end
        self._carrier: Carrier | None = None
        self._places: list[_GroupState] = []
        self._is_over = False
        self._lock = threading.Lock()

    @property
    def is_ready(self) -> bool:
        """Whether its process has sent Ready."""
        return bool(self._places)

    @property
    def awaits_ready(self) -> bool:
        """Whether its process may still send Ready."""
        return not self._is_over and not self._places

    def groups(self, keys: Iterable[int], holder: int) -> list[ServedGroup]:
        """Its groups, with these keys and the number of its process."""
        first, size = self.task.envs.start, self._group_size
        return [
            ServedGroup(key, holder, first + i * size, size, self.task.had_others)
            for i, key in zip(range(self.num_groups), keys, strict=False)
        ]

    def share(self, memory: Carrier) -> None:
        """Takes ownership of memory that its process has got."""
        with self._lock:
            if not self._is_over:
                self.memory = memory
                return
        memory.close()

    def check_ready(self, ready: pb.Ready) -> None:
        """Refuses a Ready that does not fit.

        Raises:
          Refusal: why.
        """
        if self.is_ready:
            refuse("This connection has said Ready already; send steps.")
        if (count := len(ready.applied)) != self.num_groups:
            refuse(
                f"A Ready of {self.num_groups} groups needs as many numbers of applied actions, not {count}."
            )
        for applied in ready.applied:
            refuse(problem("Ready", "applied", applied))
        if ready.shares_memory and self.memory is None:
            raise Refusal(
                grpc.StatusCode.UNAVAILABLE, "The connection to the shared memory has ended; connect again."
            )

    def begin(
        self,
        groups: Sequence[ServedGroup],
        batchers: Sequence[Batcher[Request]],
        ready: pb.Ready,
        carrier: Carrier,
    ) -> None:
        """Lets the process send steps from now on.

        Args:
          groups: its groups.
          batchers: where the steps of each go.
          ready: message of the process.
          carrier: takes the answers.
        """
        with self._lock:
            if self._is_over:
                return
            self._carrier = carrier
            self._places = [
                _GroupState(*place) for place in zip(groups, batchers, ready.applied, strict=True)
            ]
            carrier.begin(batchers[0])

    def steps(self, steps: Iterable[Step], carrier: Carrier) -> None:
        """Submits steps that have come over a carrier; ends the connection if one does not fit."""
        self.last_seen = now = time.monotonic()
        requests: dict[Batcher[Request], list[tuple[int, Request, int]]] = {}
        try:
            for number, records, episodes in steps:
                place, request = self._accept(number, records, episodes, now, carrier)
                requests.setdefault(place.batcher, []).append((place.client, request, self._group_size))
        except Refusal as refusal:
            self.end(refusal)
            return
        for batcher, entries in requests.items():
            batcher.submit_all(entries)

    def _accept(
        self,
        number: int,
        records: bytes | memoryview,
        episodes: Sequence[pb.Episode],
        now: float,
        carrier: Carrier,
    ) -> tuple[_GroupState, Request]:
        check_step(number, records, episodes, len(self._places), self._group_size, self._size)
        place = self._places[number]
        if place.is_waiting:
            refuse(f"A step of group {number} came before its last one was answered; wait for the actions.")
        if carrier is not self._carrier:
            refuse("Steps of this actor go through the shared memory.")
        applied, place.applied = place.applied, None
        if applied is not None and place.group.is_restart and self._size == self._codec.size:
            records = bytes(records)  # The process might change what it shares.
            if not np.frombuffer(records, self._codec.record)["done"].all():
                refuse("The first step of a new actor must be a reset: set done.")
        place.is_waiting, place.episodes = True, episodes
        self.agent_steps += self._group_size * self._size.agent_steps
        return place, Request(place.group, records, now, applied, episodes)

    def answered(self, number: int, answer: Answer) -> bytes | None:
        """Notes that a group's step has an answer; returns the actions, None if the connection ends."""
        place = self._places[number]
        if isinstance(answer, BadStep):
            self.end(Refusal(grpc.StatusCode.INTERNAL if answer.error else _INVALID, answer.sentence))
            return None
        if place.episodes:
            first = place.group.first_env
            self._on_episodes(
                [
                    Episode(first + e.env, e.episode_return, e.agent_steps, dict(e.figures))
                    for e in place.episodes
                ]
            )
        place.is_waiting = False
        return answer

    @property
    def carrier(self) -> Carrier:
        """Carrier of its answers, from its Ready on."""
        assert self._carrier is not None
        return self._carrier

    def end(self, refusal: Refusal | None = None) -> None:
        """Ends the connection; a second call does nothing.

        Args:
          refusal: the reason; None: training is complete, or the process has gone.
        """
        with self._lock:
            if self._is_over:
                return
            self._is_over = True
        for place in self._places:
            place.batcher.disconnect(place.client)
        self._on_end(self, refusal)
        for carrier in (self._carrier, self.memory):
            if carrier is not None:
                carrier.close()


def check_step(
    number: int,
    records: bytes | memoryview,
    episodes: Sequence[pb.Episode],
    num_groups: int,
    num_envs: int,
    size: RecordSize,
) -> None:
    """Refuses a step, or unrolls, that do not fit a connection.

    It has `num_groups` groups (0: it is not ready) of `num_envs` environments each.

    Raises:
      Refusal: why.
    """
    if not num_groups:
        refuse("A step came before the Ready of its connection.")
    if not 0 <= number < num_groups:
        refuse(problem("Step", "group", number, num_groups - 1))
    refuse(size.problem(records, num_envs))
    if not episodes:
        return
    for episode in episodes:
        refuse(first_problem(episode, env=num_envs - 1))
    most, can_end = max(collections.Counter(e.env for e in episodes).values()), size.most_episodes
    if most > can_end:
        refuse(f"One message reports {most} episodes of an environment; at most {can_end} can end.")


def refuse(sentence: str) -> None:
    """Raises the Refusal of a message with this sentence, unless it is empty."""
    if sentence:
        raise Refusal(_INVALID, sentence)


def failure(error: Exception) -> Refusal:
    """The refusal of a peer whose message raised an error here, which the log shows."""
    log_failure("a message of an actor", error)
    what = one_line(repr(error), 200)
    return Refusal(grpc.StatusCode.INTERNAL, f"A message failed here ({what}); see the learner's log.")
