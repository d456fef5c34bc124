"""A connection with an actor process: the rules of the conversation. No TensorFlow.

An actor says Join, and gets a Welcome with a task; says Ready when it has made its environments; and then
sends a step of each of its groups, and the next one when the actions for the last one have come
(protos/inference.proto). Carriers pass on what comes, and send the answers.
"""

import collections
import math
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import grpc
import numpy as np

from seed_rl.serving.batcher import Batcher
from seed_rl.serving.request import Answer, BadStep, Episode, Group, Request
from seed_rl.serving.tasks import Task
from seed_rl.types import EnvironmentSpec
from seed_rl.wire.codec import RecordSize, StepCodec
from seed_rl.wire.generated import inference_pb2 as pb

# At a thousand agent steps per second, an environment takes eleven days for this many.
_MOST_EPISODE_STEPS = 10**9

_INVALID = grpc.StatusCode.INVALID_ARGUMENT


class RefusedError(Exception):
    """Ends a connection with a status and a one-sentence message."""

    def __init__(self, code: grpc.StatusCode, sentence: str):
        super().__init__(sentence)
        self.code = code


# Called once, by any thread, with the reason for the end of a connection (None: training is complete, or the
# process has gone).
OnEnd = Callable[[RefusedError | None], None]


class Carrier(Protocol):
    """What takes answers to an actor: a stream of messages, or shared memory.

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


class _Place:
    """A group of a connection, and what it waits for."""

    def __init__(self, group: Group, batcher: Batcher[Request], applied: int):
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
    """

    def __init__(
        self,
        task: Task,
        join: pb.Join,
        spec: EnvironmentSpec,
        size: RecordSize,
        on_episodes: Callable[[list[Episode]], None],
        on_end: Callable[["Connection", RefusedError | None], None],
    ):
        """Gives a process its task.

        Args:
          task: the environments.
          join: what the process has said.
          spec: of the environments.
          size: of its requests, which are steps or unrolls.
          on_episodes: called with finished episodes.
          on_end: called once, by any thread, with the reason (None: training is complete, or the process has
            gone).
        """
        self.task, self.process_id, self.num_groups = task, join.process_id, join.num_groups
        self.memory: Carrier | None = None
        self._group_size = join.num_envs // join.num_groups
        self._codec, self._size = StepCodec(spec), size
        self._on_episodes, self._on_end = on_episodes, on_end
        self._carrier: Carrier | None = None
        self._places: list[_Place] = []
        self._is_over = False
        self._lock = threading.Lock()

    @property
    def is_ready(self) -> bool:
        """Whether its process has said Ready."""
        return bool(self._places)

    @property
    def awaits_ready(self) -> bool:
        """Whether its process may still say Ready."""
        return not self._is_over and not self._places

    def groups(self, keys: Iterable[int]) -> list[Group]:
        """Its groups, with these keys."""
        first, size = self.task.envs.start, self._group_size
        return [
            Group(key, self.process_id, first + i * size, size, self.task.had_others)
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
          RefusedError: why.
        """
        if self.is_ready:
            raise RefusedError(_INVALID, "This connection has said Ready already; send steps.")
        if len(ready.applied) != self.num_groups:
            raise RefusedError(
                _INVALID,
                f"A Ready of {self.num_groups} groups needs as many numbers of applied actions, not "
                f"{len(ready.applied)}.",
            )
        if ready.shares_memory and self.memory is None:
            raise RefusedError(
                grpc.StatusCode.UNAVAILABLE, "The connection to the shared memory has ended; connect again."
            )

    def begin(
        self, groups: Sequence[Group], batchers: Sequence[Batcher[Request]], ready: pb.Ready, carrier: Carrier
    ) -> None:
        """Lets the process send steps from now on.

        Args:
          groups: its groups.
          batchers: where the steps of each go.
          ready: what it has said.
          carrier: takes the answers.
        """
        with self._lock:
            if self._is_over:
                return
            self._carrier = carrier
            self._places = [_Place(*place) for place in zip(groups, batchers, ready.applied, strict=True)]
            carrier.begin(batchers[0])

    def steps(self, steps: Iterable[Step], carrier: Carrier) -> None:
        """Submits steps that have come over a carrier; ends the connection if one does not fit."""
        now = time.monotonic()
        requests: dict[Batcher[Request], list[tuple[int, Request, int]]] = {}
        try:
            for number, records, episodes in steps:
                place, request = self._accept(number, records, episodes, now, carrier)
                requests.setdefault(place.batcher, []).append((place.client, request, self._group_size))
        except RefusedError as refusal:
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
    ) -> tuple[_Place, Request]:
        check_step(number, records, episodes, len(self._places), self._group_size, self._size)
        place = self._places[number]
        if place.is_waiting:
            raise RefusedError(
                _INVALID,
                f"A step of group {number} came before its last one was answered; wait for the actions.",
            )
        if carrier is not self._carrier:
            raise RefusedError(_INVALID, "Steps of this actor go through the shared memory.")
        applied, place.applied = place.applied, None
        if applied is not None and place.group.is_restart and self._size == self._codec.size:
            records = bytes(records)  # The process might change what it shares.
            if not np.frombuffer(records, self._codec.record)["done"].all():
                raise RefusedError(_INVALID, "The first step of a new actor must be a reset: set done.")
        place.is_waiting, place.episodes = True, episodes
        return place, Request(place.group, records, now, applied)

    def answered(self, number: int, answer: Answer) -> bytes | None:
        """Notes that a group's step has an answer; returns the actions, None if the connection ends."""
        place = self._places[number]
        if isinstance(answer, BadStep):
            self.end(RefusedError(_INVALID, answer.sentence))
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
        """What takes its answers, from its Ready on."""
        assert self._carrier is not None
        return self._carrier

    def end(self, refusal: RefusedError | None = None) -> None:
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
      RefusedError: why.
    """
    if not num_groups:
        raise RefusedError(_INVALID, "A step came before the Ready of its connection.")
    if not 0 <= number < num_groups:
        raise RefusedError(
            _INVALID, f"There is no group {number}: those of this actor are 0 to {num_groups - 1}."
        )
    try:
        size.check(records, num_envs)
    except ValueError as error:
        raise RefusedError(_INVALID, str(error)) from None
    if episodes and (problem := _episode_problem(episodes, num_envs, size.most_episodes)):
        raise RefusedError(_INVALID, problem)


def _episode_problem(episodes: Sequence[pb.Episode], num_envs: int, most: int) -> str | None:
    for episode in episodes:
        env = episode.env
        if not 0 <= env < num_envs:
            return (
                f"An episode of environment {env} was reported for a group of environments 0 to "
                f"{num_envs - 1}; count them within the group."
            )
        if not math.isfinite(episode.episode_return):
            return f"The return of an episode of environment {env} is NaN or infinite; fix the environment."
        if not 0 <= episode.agent_steps <= _MOST_EPISODE_STEPS:
            return (
                f"An episode of environment {env} cannot have {episode.agent_steps} agent steps; report 0 to "
                f"{_MOST_EPISODE_STEPS}."
            )
    counts = collections.Counter(episode.env for episode in episodes)
    if max(counts.values()) > most:
        return (
            f"One message reports {max(counts.values())} episodes of an environment; at most {most} can end."
        )
    return None
