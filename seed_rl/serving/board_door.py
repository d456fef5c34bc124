"""Where actors ask for the board: a unix socket that gives each process memory. Linux only; no TensorFlow."""

import asyncio
import contextlib
import hmac
import mmap
import os
import secrets
import socket
import struct
from urllib.parse import unquote

from seed_rl.serving.board import Board
from seed_rl.serving.doorbell import Ringing
from seed_rl.serving.listener import free_descriptors
from seed_rl.serving.silence import Limits
from seed_rl.serving.sockets import SocketPath, is_socket_file
from seed_rl.wire.board import ANSWER, MAGIC, REQUEST, share_memory, socket_address
from seed_rl.wire.generated import inference_pb2 as pb

_CREDENTIALS = struct.Struct("3i")  # Of a peer: process, user, group.
_BACKLOG = 256
_PAUSE_SECS = 0.5


class _Lobby:
    """Watches the connections of processes that have no stream yet; belongs to the event loop."""

    def watch(self, connection: Ringing) -> None:
        asyncio.get_running_loop().add_reader(connection.fileno(), connection.answer_door)

    def forget(self, connection: Ringing) -> None:
        asyncio.get_running_loop().remove_reader(connection.fileno())


class BoardDoor:
    """Listens on a unix socket, and gives processes that know the secret memory of their own.

    The memory has no name, so nothing is left of it when the processes have ended, however they did.

    Attributes:
      description: what actors must know to ask for memory.
    """

    def __init__(self, server_address: str, board: Board, num_envs: int, env_bytes: int, limits: Limits):
        """Starts listening; must run on the event loop.

        Args:
          server_address: of the learner. The socket of a unix socket's path is beside it; otherwise it is in
            the abstract namespace, which leaves no file behind.
          board: gets the connections.
          num_envs: environments of the run.
          env_bytes: the most memory that an environment needs.
          limits: of what silent peers may use.

        Raises:
          OSError: the socket cannot be opened.
        """
        self._board, self._max_bytes = board, num_envs * env_bytes
        self._max_processes = num_envs + limits.spare_streams
        free = free_descriptors()
        if free is not None:  # Half of them are for gRPC. A process takes two; as many again may be silent.
            self._max_processes = max(1, min(self._max_processes, free // 6))
        self._handshake_secs = limits.handshake_secs
        self._secret = secrets.token_bytes(16)
        self._welcoming: dict[asyncio.Task[None], None] = {}  # The oldest first.
        self._path: SocketPath | None = None
        address = f"@seed_rl/{secrets.token_hex(16)}"
        with contextlib.ExitStack() as at_failure:
            bound = address
            if is_socket_file(server_address):
                self._path = SocketPath(f"{server_address}.board")
                at_failure.callback(self._path.release)
                address = os.path.abspath(unquote(f"{server_address}.board".removeprefix("unix:")))
                bound = f"{address}~"
            self._listener = at_failure.enter_context(socket.socket(socket.AF_UNIX))
            if self._path:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(bound)
            self._listener.bind(socket_address(bound))
            if self._path:
                os.chmod(bound, 0o600)
            self._listener.listen(_BACKLOG)
            self._listener.setblocking(False)
            if self._path:
                self._path.publish()
            at_failure.pop_all()
        self.description = pb.Board(address=address, secret=self._secret)
        asyncio.get_running_loop().add_reader(self._listener, self._accept)

    def close(self) -> None:
        """Stops listening, and ends all connections; must run on the event loop."""
        asyncio.get_running_loop().remove_reader(self._listener)
        self._listener.close()
        if self._path:
            self._path.release()
        for task in self._welcoming:
            task.cancel()
        self._board.close()

    def _accept(self) -> None:
        try:
            link, _ = self._listener.accept()
        except OSError:  # It is gone again, or there are no descriptors left: others need a moment to leave.
            loop = asyncio.get_running_loop()
            loop.remove_reader(self._listener)
            loop.call_later(_PAUSE_SECS, self._resume)
            return
        link.setblocking(False)
        task = asyncio.ensure_future(self._welcome(link))
        self._welcoming[task] = None
        task.add_done_callback(lambda task: self._welcoming.pop(task, None))
        if len(self._welcoming) > self._max_processes:
            oldest = next(iter(self._welcoming))
            del self._welcoming[oldest]
            oldest.cancel()

    def _resume(self) -> None:
        if self._listener.fileno() != -1:
            asyncio.get_running_loop().add_reader(self._listener, self._accept)

    async def _welcome(self, link: socket.socket) -> None:
        """Gives a process its memory, or says why not; a process without the secret is told nothing."""
        is_welcome = False
        try:
            data = await asyncio.wait_for(_receive(link, REQUEST.size), self._handshake_secs)
            magic, secret, num_bytes = REQUEST.unpack(data)
            if magic == MAGIC and hmac.compare_digest(secret, self._secret):
                if problem := self._problem(link, num_bytes):
                    link.send(ANSWER.pack(1, len(problem.encode()), 0) + problem.encode())
                else:
                    self._give(link, num_bytes)
                    is_welcome = True
        except (TimeoutError, OSError, struct.error):
            pass
        finally:
            if not is_welcome:
                link.close()

    def _problem(self, link: socket.socket, num_bytes: int) -> str | None:
        """Why a process cannot have memory, in one sentence."""
        raw = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        _, user, _ = _CREDENTIALS.unpack(raw)
        if user != os.geteuid():
            return (
                f"The actor runs as user {user} and the learner as {os.geteuid()}; run both as the same user."
            )
        if not 0 < num_bytes <= self._max_bytes:
            return f"An actor can have 1 to {self._max_bytes} bytes of shared memory, not {num_bytes}."
        if self._board.num_connections >= self._max_processes:
            return f"There are {self._max_processes} processes on the board already."
        return None

    def _give(self, link: socket.socket, num_bytes: int) -> None:
        try:
            descriptor = share_memory(num_bytes)
        except OSError as error:
            problem = f"There are no {num_bytes} bytes of shared memory left ({error.strerror}).".encode()
            link.send(ANSWER.pack(1, len(problem), 0) + problem)
            raise
        try:
            connection = self._board.add(link, mmap.mmap(descriptor, num_bytes), _Lobby())
            try:
                socket.send_fds(link, [ANSWER.pack(0, 0, connection.number)], [descriptor])
            except OSError:
                self._board.lose(connection)
                raise
        finally:
            os.close(descriptor)


async def _receive(link: socket.socket, num_bytes: int) -> bytes:
    """Receives so many bytes; fewer if the connection ends."""
    loop, data = asyncio.get_running_loop(), b""
    while len(data) < num_bytes and (more := await loop.sock_recv(link, num_bytes - len(data))):
        data += more
    return data
