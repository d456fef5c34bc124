"""The memory of a gateway's streams: seats on links to the learner's board. No TensorFlow."""

import asyncio
from typing import Any

import grpc

from seed_rl.serving.refusal import RefusedError
from seed_rl.types import EnvironmentSpec
from seed_rl.wire.board_link import BoardLink, NoBoardError, ring_of
from seed_rl.wire.generated import inference_pb2 as pb

# Streams that share a link: what arrives for several of them costs one wake-up.
_SEATS = 64


class Seat:
    """The place of one stream on a link.

    Attributes:
      bench: that it belongs to.
      place: what the stream's hello says of it.
      part: its part of the memory.
    """

    def __init__(self, bench: "_Bench", number: int):
        """A free seat."""
        self.bench, self._number = bench, number
        self.place, self.part = bench.link.place(number), bench.link.parts[number]
        self._answered: asyncio.Future[None] | None = None

    def ring(self, has_episodes: bool) -> "asyncio.Future[None]":
        """Tells the learner of the step in the part; returns what `wake` ends."""
        self._answered = asyncio.get_running_loop().create_future()
        self.bench.ring(ring_of(self._number, has_episodes))
        return self._answered

    def wake(self, *_: Any) -> None:
        """Ends the wait for an answer, if there is one."""
        if self._answered is not None and not self._answered.done():
            self._answered.set_result(None)


class _Bench:
    """A link with seats for streams of one size.

    Attributes:
      link: the link.
      free: seats that no stream has had; the learner might still read the part of one that has.
      num_taken: how many streams have one now.
    """

    def __init__(self, board: pb.Board, spec: EnvironmentSpec, num_envs: int, num_seats: int):
        self.link = BoardLink(board, spec, [num_envs] * num_seats)
        self._seats = [Seat(self, number) for number in range(num_seats)]
        self.free, self.num_taken = list(self._seats), 0
        self._rings: list[int] = []
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self.link.fileno(), self._take_rings)

    def ring(self, ring: int) -> None:
        """Rings soon, together with the other streams whose steps arrive now."""
        self._rings.append(ring)
        if len(self._rings) == 1:
            self._loop.call_soon(self._ring_all)

    def _ring_all(self) -> None:
        rings, self._rings = self._rings, []
        self.link.ring_all(rings)

    def _take_rings(self) -> None:
        for number in self.link.rings():
            if number < len(self._seats):  # The end of a stream also comes as a status.
                self._seats[number].wake()
        if self.link.is_over:
            self.close()

    def close(self) -> None:
        """Ends the link; the learner frees the memory when it no longer reads it."""
        self.link.is_over = True
        if self.link.fileno() != -1:
            self._loop.remove_reader(self.link.fileno())
            self.link.close()


class Seats:
    """All seats of a gateway. Belongs to one event loop."""

    def __init__(self, description: pb.Description, spec: EnvironmentSpec):
        """Opens links to this learner as they are needed.

        Args:
          description: the learner's.
          spec: of its environments, see `wire.protocol.sizes_of`.
        """
        self._description, self._spec = description, spec
        self._benches: dict[int, _Bench] = {}  # The newest for each number of environments.

    def take(self, num_envs: int) -> Seat:
        """A seat for a stream, which nobody gets after it.

        Raises:
          RefusedError: the learner cannot be reached.
        """
        bench = self._benches.get(num_envs)
        if bench is None or bench.link.is_over or not bench.free:
            bench = self._benches[num_envs] = self._open(num_envs)
        bench.num_taken += 1
        return bench.free.pop()

    def _open(self, num_envs: int) -> _Bench:
        num_seats = max(1, min(_SEATS, self._description.num_envs // num_envs))
        try:
            return _Bench(self._description.board, self._spec, num_envs, num_seats)
        except NoBoardError as error:
            raise RefusedError(
                grpc.StatusCode.UNAVAILABLE, f"The gateway cannot reach the learner ({error}); connect again."
            ) from None

    def leave(self, seat: Seat) -> None:
        """Must be called when a stream has ended; the last one ends its link and frees the memory."""
        bench = seat.bench
        bench.num_taken -= 1
        if not bench.free and not bench.num_taken:
            bench.close()
