"""The learner's end of the board: actors on its machine exchange steps and actions in shared memory.

Connections are accepted on the server's event loop. After that, an inference thread waits for their rings
(`serving.doorbell`), so that a step wakes one thread only. No TensorFlow.
"""

import mmap
import secrets
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import grpc

from seed_rl.serving.batcher import Batcher
from seed_rl.serving.doorbell import Doorbell, Ringing
from seed_rl.serving.episodes import episode_problem
from seed_rl.serving.refusal import RefusedError
from seed_rl.serving.request import Answer, BadStep, Request
from seed_rl.serving.slots import Lease
from seed_rl.serving.steps import require_reset
from seed_rl.types import EnvironmentSpec
from seed_rl.wire.board import EPISODES, LOOK, MOST_STREAMS, RING, Part, is_aligned, part_layout
from seed_rl.wire.codec import StepCodec
from seed_rl.wire.generated import inference_pb2 as pb

# Rings of more streams than a process may have; a process that sends more has to wait for the others.
_MOST_BYTES_READ = 1 << 10

OnRefusal = Callable[[Lease, RefusedError], None]


class Watcher(Protocol):
    """Something that calls a connection's `answer_door` when its process rings or is gone."""

    def watch(self, connection: Ringing) -> None:
        """Does so from now on."""

    def forget(self, connection: Ringing) -> None:
        """Does so no longer; the connection is still open."""


class BoardStream:
    """A stream whose steps come through the board.

    Attributes:
      lease: its environments.
      connection: of its process.
      number: by which the process rings for it.
      part: its part of the memory.
      is_first: whether no step has come yet.
      is_waiting: whether a step has no answer yet.
      is_refused: whether it is about to end because of what its process did.
      episodes: that ended with this step.
    """

    def __init__(
        self,
        lease: Lease,
        batcher: Batcher[Request],
        client: int,
        connection: "Connection",
        number: int,
        part: Part,
    ):
        """Describes a stream that is client number `client` of a batcher."""
        self.lease, self.batcher, self.client = lease, batcher, client
        self.connection, self.number, self.part = connection, number, part
        self.is_first, self.is_waiting, self.is_refused = True, False, False
        self.episodes: Sequence[pb.Episode] = ()


class Connection:
    """An actor process on the board, after it has got its memory.

    Attributes:
      number: which streams must name in their hellos. Nobody else can guess it.
      memory: that it shares with the learner.
      streams: its streams, by its own numbers.
      used: the numbers of all streams that it has had.
    """

    def __init__(self, board: "Board", link: socket.socket, memory: mmap.mmap, watcher: Watcher):
        """Takes ownership of a socket, which does not block."""
        self._board, self._link, self.memory = board, link, memory
        self.number = secrets.randbits(64)
        self.streams: dict[int, BoardStream] = {}
        self.used: set[int] = set()
        self._rest = b""
        self._watcher = watcher
        watcher.watch(self)

    def fileno(self) -> int:
        """The socket's descriptor."""
        return self._link.fileno()

    def move_to(self, watcher: Watcher) -> None:
        """Lets another watcher pass on the rings from now on."""
        self._watcher.forget(self)
        self._watcher = watcher
        watcher.watch(self)

    def answer_door(self) -> None:
        """Passes on the rings that have arrived; called by the watcher."""
        try:
            data = self._link.recv(_MOST_BYTES_READ)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._board.lose(self)
            return
        data = self._rest + data
        whole = len(data) // RING.size
        self._rest = data[whole * RING.size :]
        self._board.rung(self, struct.unpack_from(f"<{whole}I", data))

    def ring(self, numbers: Sequence[int]) -> None:
        """Rings for streams, or `LOOK`; the process has room for a ring of every stream."""
        data = struct.pack(f"<{len(numbers)}I", *numbers)
        try:
            if self._link.send(data) == len(data):
                return
        except OSError:
            pass
        self._board.lose(self)

    def close(self) -> None:
        """Closes the socket; the memory is freed when nobody reads it any more."""
        self._watcher.forget(self)
        self._link.close()


class Board:
    """All connections and streams of the board. Thread-safe after `start`, except as noted."""

    def __init__(
        self,
        spec: EnvironmentSpec,
        on_refusal: OnRefusal,
        on_episodes: Callable[[list[pb.Episode]], None],
    ):
        """Prepares an empty board.

        Args:
          spec: of the environments.
          on_refusal: called by any thread when a stream must end, with the reason.
          on_episodes: called by any thread with finished episodes.
        """
        self._spec, self._on_refusal, self._on_episodes = spec, on_refusal, on_episodes
        self._record = StepCodec(spec).record
        self._connections: dict[int, Connection] = {}
        self._streams: dict[int, BoardStream] = {}  # By lease key.
        self._lock = threading.Lock()

    @property
    def num_connections(self) -> int:
        """How many processes are connected."""
        return len(self._connections)

    def add(self, link: socket.socket, memory: mmap.mmap, watcher: Watcher) -> Connection:
        """Adds the connection of a process that gets this memory; watched there until it has a stream."""
        connection = Connection(self, link, memory, watcher)
        with self._lock:
            self._connections[connection.number] = connection
        return connection

    def attach(self, lease: Lease, batcher: Batcher[Request], client: int, place: pb.BoardPart) -> None:
        """Lets a stream use its part of the memory from now on; must run on the event loop.

        Raises:
          RefusedError: its connection has ended, or it cannot have this part.
        """
        connection = self._connections.get(place.connection)
        if connection is None:
            raise _gone()
        layout = part_layout(self._spec, lease.num_envs)
        end = place.offset + layout.size
        if end > len(connection.memory) or not is_aligned(place.offset) or place.stream >= MOST_STREAMS:
            raise RefusedError(
                grpc.StatusCode.INVALID_ARGUMENT,
                f"Stream {place.stream} cannot have bytes {place.offset} to {end} of the actor's "
                f"{len(connection.memory)}; use offsets that are multiples of 64, and numbers below "
                f"{MOST_STREAMS}.",
            )
        part = Part(connection.memory, place.offset, layout)
        stream = BoardStream(lease, batcher, client, connection, place.stream, part)
        with self._lock:
            if place.connection not in self._connections:
                raise _gone()
            if place.stream in connection.used:  # Late rings could be those of the other stream.
                raise RefusedError(
                    grpc.StatusCode.INVALID_ARGUMENT,
                    f"Another stream of this connection to the board has number {place.stream}, or had it; "
                    "give each its own.",
                )
            is_first = not connection.used
            connection.used.add(place.stream)
            connection.streams[place.stream] = stream
            self._streams[lease.key] = stream
            if is_first and isinstance(batcher.bell, Doorbell):
                connection.move_to(batcher.bell)

    def detach(self, lease: Lease) -> None:
        """Forgets a stream, and tells its process; a second call does nothing."""
        with self._lock:
            stream = self._streams.pop(lease.key, None)
            if stream is None:
                return
            del stream.connection.streams[stream.number]
        stream.connection.ring([LOOK])

    def rung(self, connection: Connection, rings: Iterable[int]) -> None:
        """Submits the steps that a process has rung for."""
        now = time.monotonic()
        steps: dict[Batcher[Request], list[tuple[int, Request, int]]] = {}
        for ring in rings:
            stream = connection.streams.get(ring & ~EPISODES)
            if stream is None or stream.is_refused:
                continue  # It has ended, and its process does not know yet.
            try:
                records = self._read(stream, bool(ring & EPISODES))
            except RefusedError as refusal:
                stream.is_refused = True
                self._on_refusal(stream.lease, refusal)
                continue
            request = Request(stream.lease, records, now)
            steps.setdefault(stream.batcher, []).append((stream.client, request, stream.lease.num_envs))
        for batcher, entries in steps.items():
            batcher.submit_all(entries)

    def _read(self, stream: BoardStream, has_episodes: bool) -> bytes | memoryview:
        """The records of a step that a stream has rung for."""
        if stream.is_waiting:
            raise RefusedError(
                grpc.StatusCode.INVALID_ARGUMENT,
                "A step came before the last one was answered; wait for its ring.",
            )
        stream.is_waiting = True
        if has_episodes:
            stream.episodes = stream.part.read_episodes(stream.lease.first_env)
            if problem := episode_problem(stream.episodes, stream.lease):
                raise RefusedError(grpc.StatusCode.INVALID_ARGUMENT, problem)
        if not stream.is_first:
            return stream.part.records
        stream.is_first = False
        records = bytes(stream.part.records)
        require_reset(records, self._record, stream.lease)
        return records

    def deliver(self, answers: list[tuple[Request, Answer]]) -> list[tuple[Request, Answer]]:
        """Writes actions and rings; returns the answers that belong to other streams or end theirs."""
        rings: dict[Connection, list[int]] = {}
        others = []
        for pair in answers:
            request, answer = pair
            stream = self._streams.get(request.lease.key)
            if stream is None or isinstance(answer, BadStep):
                others.append(pair)
                continue
            if stream.episodes:
                self._on_episodes(list(stream.episodes))
                stream.episodes = ()
            stream.part.actions[:] = answer
            stream.is_waiting = False
            rings.setdefault(stream.connection, []).append(stream.number)
        for connection, numbers in rings.items():
            connection.ring(numbers)
        return others

    def lose(self, connection: Connection) -> None:
        """Ends a connection and its streams; a second call does nothing."""
        with self._lock:
            if self._connections.pop(connection.number, None) is None:
                return
            connection.close()
            streams = list(connection.streams.values())
        for stream in streams:
            self._on_refusal(stream.lease, _gone())

    def close(self) -> None:
        """Ends all connections."""
        for connection in list(self._connections.values()):
            self.lose(connection)


def _gone() -> RefusedError:
    return RefusedError(grpc.StatusCode.UNAVAILABLE, "The connection to the board has ended; connect again.")
