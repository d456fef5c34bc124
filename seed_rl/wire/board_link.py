"""The actor's end of the board: its process's memory, and the socket on which it rings. No TensorFlow."""

import contextlib
import mmap
import os
import select
import socket
import struct
from collections.abc import Sequence

from seed_rl.messages import one_line
from seed_rl.types import EnvironmentSpec
from seed_rl.wire.board import (
    ANSWER,
    EPISODES,
    LOOK,
    MAGIC,
    MOST_STREAMS,
    REQUEST,
    RING,
    Part,
    is_supported,
    part_layout,
    socket_address,
)
from seed_rl.wire.generated import inference_pb2 as pb

# The learner answers at once, unless it is frozen.
_CONNECT_SECS = 5.0
_MOST_BYTES_READ = 1 << 10


def ring_of(stream: int, has_episodes: bool) -> int:
    """What a process sends when the step of a stream is written."""
    return stream | EPISODES if has_episodes else stream


_MOST_BYTES_SAID = 1_000


class NoBoardError(Exception):
    """This process cannot have shared memory; the message is a sentence that says why."""


class BoardLink:
    """A process's connection to the board.

    Attributes:
      parts: the part of the memory of each of its streams, which are numbered from 0.
      is_over: whether the learner has ended the connection.
    """

    def __init__(self, board: pb.Board | None, spec: EnvironmentSpec, num_envs: Sequence[int]):
        """Connects, and waits a few seconds for the learner if need be.

        Args:
          board: what the learner offers; None: nothing.
          spec: of the environments.
          num_envs: the number of environments of each stream.

        Raises:
          NoBoardError: there is no shared memory for this process.
        """
        if board is None or not board.address:
            raise NoBoardError("the learner offers none")
        if not is_supported():
            raise NoBoardError("this needs Linux")
        if len(num_envs) > MOST_STREAMS:
            raise NoBoardError(f"an actor of more than {MOST_STREAMS} groups cannot have it")
        layouts = [part_layout(spec, n) for n in num_envs]
        self._link = socket.socket(socket.AF_UNIX)
        self._rest, self.is_over = b"", False
        try:
            memory = self._connect(board, sum(layout.size for layout in layouts))
        except BaseException as error:
            self._link.close()
            if isinstance(error, OSError):
                raise NoBoardError(f"the learner cannot be reached on this machine: {error}") from None
            raise
        self._link.settimeout(None)
        self._poll = select.poll()
        self._poll.register(self._link, select.POLLIN)
        self._offsets, self.parts, offset = [], [], 0
        for layout in layouts:
            self._offsets.append(offset)
            self.parts.append(Part(memory, offset, layout))
            offset += layout.size

    def _connect(self, board: pb.Board, num_bytes: int) -> mmap.mmap:
        self._link.settimeout(_CONNECT_SECS)
        self._link.connect(socket_address(board.address))
        self._link.sendall(REQUEST.pack(MAGIC, board.secret, num_bytes))
        data, descriptors, _, _ = socket.recv_fds(self._link, ANSWER.size, 1)
        if len(data) < ANSWER.size:
            raise NoBoardError("the learner closed the connection")
        status, length, self._number = ANSWER.unpack(data)
        if status or not descriptors:
            sentence = (
                self._link.recv(min(length, _MOST_BYTES_SAID)).decode(errors="replace")
                if length
                else "refused"
            )
            raise NoBoardError(one_line(sentence.removesuffix(".")))
        try:
            return mmap.mmap(descriptors[0], num_bytes)
        finally:
            os.close(descriptors[0])

    def place(self, stream: int) -> pb.BoardPart:
        """What a stream's hello says of its part."""
        return pb.BoardPart(connection=self._number, stream=stream, offset=self._offsets[stream])

    def fileno(self) -> int:
        """The socket's descriptor."""
        return self._link.fileno()

    def ring(self, stream: int, has_episodes: bool = False) -> None:
        """Says that a stream's step is written; waits if the learner has hundreds of rings to read.

        Never fails: `rings` reports the end of the connection.
        """
        self.ring_all([ring_of(stream, has_episodes)])

    def ring_all(self, rings: Sequence[int]) -> None:
        """Does the same for several streams; each is a `ring_of`."""
        with contextlib.suppress(OSError):
            self._link.send(struct.pack(f"<{len(rings)}I", *rings))

    def wait(self, timeout_secs: float) -> Sequence[int]:
        """Waits for `rings`; nothing if there are none within `timeout_secs`."""
        return self.rings() if self._poll.poll(1e3 * timeout_secs) else ()

    def rings(self) -> Sequence[int]:
        """The numbers of streams whose actions have come, without waiting.

        `LOOK` is among them if the learner has ended a stream or is gone.
        """
        try:
            data = self._link.recv(_MOST_BYTES_READ, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return ()
        except OSError:
            data = b""
        if not data:
            self.is_over = True
            return (LOOK,)
        data = self._rest + data
        whole = len(data) // RING.size
        self._rest = data[whole * RING.size :]
        return struct.unpack_from(f"<{whole}I", data)

    def close(self) -> None:
        """Ends the connection; the parts must not be used any more."""
        self._link.close()
