"""The learner's end of shared memory: gives it to actor processes, and waits for their wake-ups.

Processes connect on the server's event loop. From their Ready on, an inference thread waits for their
wake-ups (`WakeUpSet`), so that a step wakes one thread only. Linux only; no TensorFlow.
"""

import asyncio
import contextlib
import mmap
import os
import secrets
import select
import socket
import struct
from collections.abc import Sequence
from typing import Protocol

import grpc

from seed_rl.serving.batcher import Batcher
from seed_rl.serving.connection import Connection, FirstMessages, Refusal, failure
from seed_rl.serving.request import Request
from seed_rl.serving.sockets import SocketPath, is_socket_file
from seed_rl.types import EnvironmentSpec
from seed_rl.wire.generated import inference_pb2 as pb
from seed_rl.wire.shared_memory import (
    END,
    EPISODES,
    KEY_BYTES,
    MOST_GROUPS,
    MemoryLayout,
    Part,
    WakeUps,
    allocate,
    group_layout,
    is_supported,
    socket_address,
)

_CREDENTIALS = struct.Struct("3i")  # Of a peer: process, user, group.
_BACKLOG = 256
_PAUSE_SECS = 0.5
_MOST_EVENTS = 256


class Waking(Protocol):
    """Something whose other end may wake this one."""

    def fileno(self) -> int:
        """Its descriptor; -1 once it is closed."""

    def on_wake_up(self) -> None:
        """Called, by the thread that waits, when something has arrived."""


class WakeUpSet:
    """Set of actors whose wake-ups a batcher's consumer waits for: other threads may add, remove and wake."""

    def __init__(self) -> None:
        """Waits for nothing yet."""
        self._epoll = select.epoll()
        self._members: dict[int, Waking] = {}
        self._woken = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._epoll.register(self._woken, select.EPOLLIN)

    def add(self, member: Waking) -> None:
        """From now on, waits for this one too."""
        self._members[member.fileno()] = member
        self._epoll.register(member.fileno(), select.EPOLLIN)

    def remove(self, member: Waking) -> None:
        """No longer waits for a member, which is still open."""
        if self._members.pop(member.fileno(), None):
            self._epoll.unregister(member.fileno())

    def wait(self, timeout_secs: float | None) -> None:
        """Waits until members are woken, for another thread, or for the time-out."""
        for descriptor, _ in self._epoll.poll(timeout_secs, _MOST_EVENTS):
            if descriptor == self._woken:
                os.eventfd_read(self._woken)
            elif member := self._members.get(descriptor):
                member.on_wake_up()

    def wake(self) -> None:
        """Ends `wait` in another thread."""
        os.eventfd_write(self._woken, 1)

    def __del__(self) -> None:
        """Closes its descriptors."""
        self._epoll.close()
        os.close(self._woken)


def make_wake_up_set() -> WakeUpSet | None:
    """A set; None where shared memory is not supported."""
    return WakeUpSet() if is_supported() else None


class SharedMemory:
    """A process's shared memory as a carrier of its connection."""

    is_direct = True

    def __init__(self, connection: Connection, link: socket.socket, memory: mmap.mmap, layout: MemoryLayout):
        """Takes ownership of a socket and of memory for all groups of the connection."""
        self._connection, self._wake_ups = connection, WakeUps(link)
        self._parts = [Part(memory, group, layout) for group in range(connection.num_groups)]
        self._waiting: WakeUpSet | None = None

    def begin(self, batcher: Batcher[Request]) -> None:
        """Takes steps from now on; the batcher's consumer is woken for them."""
        assert isinstance(batcher.wake_ups, WakeUpSet)
        self._waiting = batcher.wake_ups
        self._waiting.add(self)

    def fileno(self) -> int:
        """The socket's descriptor."""
        return self._wake_ups.fileno()

    def on_wake_up(self) -> None:
        """Submits the steps that its process has woken this thread for."""
        numbers = self._wake_ups.receive()
        if numbers is None:
            self._connection.end(gone())
        elif numbers:
            try:
                self._connection.steps([self._step(number) for number in numbers], self)
            except Exception as error:  # The thread that waits serves all actors.
                self._connection.end(failure(error))

    def _step(self, number: int) -> tuple[int, memoryview | bytes, Sequence[pb.Episode]]:
        group = number & ~EPISODES
        if group >= len(self._parts):
            return group, b"", ()  # The connection refuses it.
        part = self._parts[group]
        return group, part.records, part.read_episodes() if number & EPISODES else ()

    def send(self, answers: Sequence[tuple[int, bytes]]) -> None:
        """Writes the actions and wakes the process, which has room for a wake-up of each group."""
        if parts := self._parts:
            for number, actions in answers:
                parts[number].actions[:] = actions
        if not self._wake_ups.send([number for number, _ in answers]):
            self._connection.end(gone())

    def close(self) -> None:
        """Sends the process the end, and closes the socket; the memory is freed after its last reader."""
        self._parts = []
        if self.fileno() != -1:
            if self._waiting is not None:
                self._waiting.remove(self)
            self._wake_ups.send([END])
            self._wake_ups.close()


def gone() -> Refusal:
    """Refusal for a connection whose process no longer shares memory."""
    return Refusal(
        grpc.StatusCode.UNAVAILABLE, "The connection to the shared memory has ended; connect again."
    )


class MemoryServer:
    """Listens on a unix socket, and gives processes that have joined memory of their own.

    The memory has no name, so nothing is left of it when the processes have ended, however they did.
    """

    def __init__(self, server_address: str, spec: EnvironmentSpec, keys: FirstMessages):
        """Starts listening; must run on the event loop.

        Args:
          server_address: of the learner. The socket of a unix socket's path is beside it; otherwise it is in
            the abstract namespace, which leaves no file behind.
          spec: of the environments.
          keys: waits for the keys of peers.

        Raises:
          OSError: the socket cannot be opened.
        """
        self._spec, self._keys = spec, keys
        self._offered: dict[bytes, tuple[Connection, MemoryLayout]] = {}
        self._handshakes: set[asyncio.Task[None]] = set()  # The event loop itself does not keep them alive.
        self._path: SocketPath | None = None
        address = f"@seed_rl/{secrets.token_hex(16)}"
        with contextlib.ExitStack() as at_failure:
            bound = address
            if is_socket_file(server_address):
                self._path = SocketPath(f"{server_address}.memory")
                at_failure.callback(self._path.release)
                address = os.path.abspath(self._path.path)
                bound = f"{address}~"
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(bound)
            self._listener = at_failure.enter_context(socket.socket(socket.AF_UNIX))
            self._listener.bind(socket_address(bound))
            if self._path:
                os.chmod(bound, 0o600)
            self._listener.listen(_BACKLOG)
            self._listener.setblocking(False)
            if self._path:
                self._path.publish()
            at_failure.pop_all()
        self._address = address
        asyncio.get_running_loop().add_reader(self._listener, self._accept)

    def offer(self, connection: Connection, join: pb.Join, welcome: pb.Welcome) -> None:
        """Adds what the process needs to get memory to its Welcome, unless it has too many groups."""
        if join.num_groups > MOST_GROUPS:
            return
        layout = group_layout(self._spec, join.num_envs // join.num_groups)
        memory = welcome.memory
        memory.address, memory.key = self._address, secrets.token_bytes(KEY_BYTES)
        memory.size, memory.group_size = join.num_groups * layout.group_size, layout.group_size
        memory.episodes, memory.actions, memory.figures = layout.episodes, layout.actions, layout.figures
        # Not those of processes that sent Ready without it, or have gone.
        self._offered = {key: offer for key, offer in self._offered.items() if offer[0].awaits_ready}
        self._offered[memory.key] = connection, layout

    def close(self) -> None:
        """Stops listening; must run on the event loop."""
        asyncio.get_running_loop().remove_reader(self._listener)
        self._listener.close()
        if self._path:
            self._path.release()

    def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            link, _ = self._listener.accept()
        except OSError:  # It is gone again, or there are no descriptors left: others need a moment to leave.
            loop.remove_reader(self._listener)
            loop.call_later(_PAUSE_SECS, self._resume)
            return
        link.setblocking(False)
        task = asyncio.ensure_future(self._shake_hands(link))
        self._handshakes.add(task)
        task.add_done_callback(self._handshakes.discard)

    def _resume(self) -> None:
        if self._listener.fileno() != -1:
            asyncio.get_running_loop().add_reader(self._listener, self._accept)

    async def _shake_hands(self, link: socket.socket) -> None:
        """Gives a process its memory, or sends the reason against it; nothing goes to one without a key."""
        with contextlib.ExitStack() as at_failure:
            at_failure.callback(link.close)
            with contextlib.suppress(Refusal, OSError):
                offer = self._offered.pop(await self._keys.first(_receive(link, KEY_BYTES)), None)
                if offer and offer[0].awaits_ready:
                    if problem := _problem(link) or self._give(link, *offer):
                        link.send(problem.encode())
                    else:
                        at_failure.pop_all()

    def _give(self, link: socket.socket, connection: Connection, layout: MemoryLayout) -> str | None:
        """Gives a process memory; returns why not, in one sentence."""
        num_bytes = connection.num_groups * layout.group_size
        try:
            descriptor = allocate(num_bytes)
        except OSError as error:
            return f"There are no {num_bytes} bytes of shared memory left ({error.strerror})."
        try:
            memory = SharedMemory(connection, link, mmap.mmap(descriptor, num_bytes), layout)
            socket.send_fds(link, [b"\0"], [descriptor])
        finally:
            os.close(descriptor)
        connection.share(memory)
        return None


def _problem(link: socket.socket) -> str | None:
    """Reason that a process cannot share memory, in one sentence."""
    _, user, _ = _CREDENTIALS.unpack(
        link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    )
    if user == os.geteuid():
        return None
    return f"The actor runs as user {user} and the learner as {os.geteuid()}; run both as the same user."


async def _receive(link: socket.socket, num_bytes: int) -> bytes:
    """Receives so many bytes; fewer if the connection ends."""
    loop, data = asyncio.get_running_loop(), b""
    while len(data) < num_bytes and (more := await loop.sock_recv(link, num_bytes - len(data))):
        data += more
    return data
