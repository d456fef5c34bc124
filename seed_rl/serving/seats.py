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
      place: what the stream's hello says of it.
      part: its part of the memory.
      is_idle: whether the learner has answered all that it was asked, and so no longer reads the part.
    """

    def __init__(self, bench: "_Bench", number: int):
        """A free seat."""
        self._bench, self._number = bench, number
        self.place, self.part = bench.link.place(number), bench.link.parts[number]
        self.is_idle = True
        self._answered: asyncio.Future[None] | None = None

    @property
    def is_over(self) -> bool:
        """Whether its link has ended."""
        return self._bench.link.is_over

    @property
    def num_envs(self) -> int:
        """How many environments it has room for."""
        return self._bench.num_envs

    def ring(self, has_episodes: bool) -> "asyncio.Future[None]":
        """Tells the learner of the step in the part; returns what `wake` ends."""
        self.is_idle = False
        self._answered = asyncio.get_running_loop().create_future()
        self._bench.ring(ring_of(self._number, has_episodes))
        return self._answered

    def answer(self) -> None:
        """The learner has written the actions."""
        self.is_idle = True
        self.wake()

    def wake(self, *_: Any) -> None:
        """Ends the wait for an answer, if there is one."""
        if self._answered is not None and not self._answered.done():
            self._answered.set_result(None)


class _Bench:
    """A link with seats for streams of one size."""

    def __init__(self, board: pb.Board, spec: EnvironmentSpec, num_envs: int, num_seats: int):
        self.num_envs, self.link = num_envs, BoardLink(board, spec, [num_envs] * num_seats)
        self.seats = [Seat(self, number) for number in range(num_seats)]
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
            if number < len(self.seats):  # The end of a stream also comes as a status.
                self.seats[number].answer()
        if self.link.is_over:
            self.close()

    def close(self) -> None:
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
        self._free: dict[int, list[Seat]] = {}  # By the number of environments.

    def take(self, num_envs: int) -> Seat:
        """A seat for a stream.

        Raises:
          RefusedError: the learner cannot be reached.
        """
        free = self._free.setdefault(num_envs, [])
        while free:
            seat = free.pop()
            if not seat.is_over:
                return seat
        num_seats = max(1, min(_SEATS, self._description.num_envs // num_envs))
        try:
            bench = _Bench(self._description.board, self._spec, num_envs, num_seats)
        except NoBoardError as error:
            raise RefusedError(
                grpc.StatusCode.UNAVAILABLE, f"The gateway cannot reach the learner ({error}); connect again."
            ) from None
        free += bench.seats
        return free.pop()

    def give_back(self, seat: Seat) -> None:
        """Lets others have a seat whose stream has ended, unless the learner may still read its part."""
        if seat.is_idle and not seat.is_over:
            self._free[seat.num_envs].append(seat)
