"""Steps and actions in memory that an actor shares with the learner on its machine. No TensorFlow.

Both ends use this module. protos/inference.proto describes the exchange for actors in other languages.
"""

import contextlib
import fcntl
import mmap
import os
import socket
import struct
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from google.protobuf.message import DecodeError

from seed_rl.messages import one_line
from seed_rl.types import EnvironmentSpec
from seed_rl.wire.codec import ActionCodec, StepCodec
from seed_rl.wire.generated import inference_pb2 as pb
from seed_rl.wire.protocol import MOST_EPISODE_BYTES

KEY_BYTES = 16

# A wake-up is the number of a group. An actor adds `EPISODES`; `END` is the learner's.
_WAKE_UP = struct.Struct("<I")
EPISODES = 1 << 31
END = (1 << 32) - 1

# Of a process: a socket's buffer has room for 278 wake-ups, and must never be full.
MOST_GROUPS = 128

# More wake-ups than a process may have groups.
_MOST_BYTES_READ = 1 << 10

_ALIGNMENT = 64
_EPISODE = np.dtype([("agent_steps", "<i4"), ("episode_return", "<f4")])
_NO_EPISODE = -1
_FIGURES_BYTES = MOST_EPISODE_BYTES  # Of an environment: the size, and the message.
_SIZE_BYTES = 4

# The learner answers at once, unless it is frozen.
_CONNECT_SECS = 5.0
_MOST_BYTES_SAID = 1_000

_LONGEST_WAIT = struct.pack("ll", 1, 0)  # A second, as C's timeval.


def is_supported() -> bool:
    """Whether this system can share memory in the way that is needed here."""
    return sys.platform == "linux"


class MemoryLayout(NamedTuple):
    """The part of the memory that a group of environments has; everything in bytes.

    Attributes:
      record_bytes: the size of all records, which come first.
      episodes: the offset of the episodes.
      figures: the offset of the environments' own figures of episodes.
      actions: the offset of the actions.
      action_bytes: the size of all actions.
      group_size: the size of the part with padding, so that the next one can begin at its end.
    """

    record_bytes: int
    episodes: int
    figures: int
    actions: int
    action_bytes: int
    group_size: int


def group_layout(spec: EnvironmentSpec, num_envs: int) -> MemoryLayout:
    """The layout of the part of a group with so many environments of this spec."""
    record_bytes = num_envs * StepCodec(spec).record_bytes
    action_bytes = num_envs * ActionCodec(spec.action).action_bytes
    episodes = _round_up(record_bytes, 8)
    figures = episodes + num_envs * _EPISODE.itemsize
    actions = figures + num_envs * _FIGURES_BYTES
    group_size = _round_up(actions + action_bytes, _ALIGNMENT)
    return MemoryLayout(record_bytes, episodes, figures, actions, action_bytes, group_size)


class Part:
    """A group's part of the memory, as views of it.

    Attributes:
      records: the bytes of all records.
      actions: the bytes of all actions.
    """

    def __init__(self, memory: mmap.mmap, group: int, layout: MemoryLayout):
        """Finds everything in a group's part."""
        begin = group * layout.group_size
        view = memoryview(memory)[begin : begin + layout.group_size]
        self.records = view[: layout.record_bytes]
        self.actions = view[layout.actions : layout.actions + layout.action_bytes]
        self._episodes = np.frombuffer(view[layout.episodes : layout.figures], _EPISODE)
        self._figures = view[layout.figures : layout.actions]

    def write_episodes(self, episodes: Sequence[pb.Episode]) -> None:
        """Writes the episodes that ended with a step."""
        self._episodes["agent_steps"] = _NO_EPISODE
        for episode in episodes:
            self._episodes[episode.env] = episode.agent_steps, episode.episode_return
            data = _figures_message(episode)
            slot = self._slot(episode.env)
            slot[: len(data) + _SIZE_BYTES] = len(data).to_bytes(_SIZE_BYTES, "little") + data

    def read_episodes(self) -> list[pb.Episode]:
        """The episodes that ended with a step; not checked yet."""
        found = self._episodes.copy().tolist()  # The other process may still be writing.
        return [
            pb.Episode(
                env=env,
                episode_return=episode_return,
                agent_steps=agent_steps,
                figures=self._read_figures(env),
            )
            for env, (agent_steps, episode_return) in enumerate(found)
            if agent_steps != _NO_EPISODE
        ]

    def _read_figures(self, env: int) -> Mapping[str, float]:
        """The own figures of an environment's episode; none if the bytes are no message."""
        slot = self._slot(env)
        size = int.from_bytes(slot[:_SIZE_BYTES], "little")
        try:
            return pb.Episode.FromString(bytes(slot[_SIZE_BYTES:][:size])).figures
        except DecodeError:
            return {}

    def _slot(self, env: int) -> memoryview:
        return self._figures[env * _FIGURES_BYTES : (env + 1) * _FIGURES_BYTES]


def _figures_message(episode: pb.Episode) -> bytes:
    """The own figures of an episode, as many as there is room for."""
    figures = list(episode.figures.items())
    while len(data := pb.Episode(figures=dict(figures)).SerializeToString()) > _FIGURES_BYTES - _SIZE_BYTES:
        figures.pop()
    return data


def allocate(num_bytes: int) -> int:
    """A descriptor of new memory of a fixed size that is really there.

    It has no name in any directory, and ends with the last process that has it.

    Raises:
      OSError: there is not so much memory.
    """
    descriptor = os.memfd_create("seed_rl", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.posix_fallocate(descriptor, 0, num_bytes)
        # A process that made it smaller would end all others that touch the rest.
        seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def socket_address(address: str) -> str:
    """Address for a unix socket to connect to or listen at; '@' begins names in the abstract namespace."""
    return f"\0{address[1:]}" if address.startswith("@") else address


class WakeUps:
    """The socket over which both ends wake each other. Any thread may send, and one receives."""

    def __init__(self, link: socket.socket):
        """Takes ownership of a connected socket."""
        self._link, self._rest = link, b""

    def fileno(self) -> int:
        """The socket's descriptor; -1 once it is closed."""
        return self._link.fileno()

    def send(self, numbers: Sequence[int]) -> bool:
        """Sends numbers without waiting; returns whether that worked."""
        data = struct.pack(f"<{len(numbers)}I", *numbers)
        try:
            return self._link.send(data, socket.MSG_DONTWAIT) == len(data)
        except OSError:
            return False

    def receive(self, flags: int = socket.MSG_DONTWAIT) -> Sequence[int] | None:
        """The numbers that have come, without waiting; None: the connection has ended."""
        try:
            data = self._link.recv(_MOST_BYTES_READ, flags)
        except BlockingIOError:
            return ()
        except OSError:
            data = b""
        if not data:
            return None
        data = self._rest + data
        whole = len(data) // _WAKE_UP.size
        self._rest = data[whole * _WAKE_UP.size :]
        return struct.unpack_from(f"<{whole}I", data)

    def close(self) -> None:
        """Closes the socket."""
        self._link.close()


class NoMemoryError(Exception):
    """This process cannot have shared memory; the message is a sentence that says why."""


class MemoryLink(WakeUps):
    """An actor's end of the shared memory.

    Attributes:
      parts: the part of each group.
    """

    def __init__(self, memory: pb.Memory, spec: EnvironmentSpec, num_envs: int, num_groups: int):
        """Connects, and waits a few seconds for the learner if need be.

        Args:
          memory: what the learner offers.
          spec: of the environments.
          num_envs: environments of each group.
          num_groups: the number of groups.

        Raises:
          NoMemoryError: there is no shared memory for this process.
        """
        if not memory.address:
            raise NoMemoryError("the learner offers none")
        layout = group_layout(spec, num_envs)
        super().__init__(socket.socket(socket.AF_UNIX))
        with contextlib.ExitStack() as at_failure:
            at_failure.callback(self.close)
            try:
                mapped = self._connect(memory)
            except OSError as error:
                raise NoMemoryError(f"the learner cannot be reached on this machine: {error}") from None
            at_failure.pop_all()
        self._link.settimeout(None)  # The system's own limit takes one call less than Python's.
        self._link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _LONGEST_WAIT)
        self.parts = [Part(mapped, group, layout) for group in range(num_groups)]

    def _connect(self, memory: pb.Memory) -> mmap.mmap:
        self._link.settimeout(_CONNECT_SECS)
        self._link.connect(socket_address(memory.address))
        self._link.sendall(memory.key)
        said, descriptors, flags, _ = socket.recv_fds(self._link, _MOST_BYTES_SAID, 1)
        if flags & socket.MSG_CTRUNC:
            raise NoMemoryError("this process may open no more files")
        if not descriptors:
            sentence = one_line(said.decode(errors="replace")).removesuffix(".")
            raise NoMemoryError(sentence or "the learner closed the connection")
        try:
            return mmap.mmap(descriptors[0], memory.size)
        finally:
            os.close(descriptors[0])

    def wait(self) -> Sequence[int] | None:
        """Waits for `receive`; nothing if no number comes within a second."""
        return self.receive(0)


def _round_up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple
