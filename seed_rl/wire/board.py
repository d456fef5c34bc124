"""The board: steps and actions in memory that an actor shares with the learner on its machine. No TensorFlow.

Both ends use this module. protos/inference.proto describes the exchange for actors in other languages.
"""

import fcntl
import mmap
import os
import struct
import sys
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from seed_rl.types import EnvironmentSpec
from seed_rl.wire.codec import ActionCodec, StepCodec
from seed_rl.wire.generated import inference_pb2 as pb

# What an actor sends first: this, the learner's secret, and the bytes of memory that it needs.
MAGIC = b"SEEDRL01"
REQUEST = struct.Struct("<8s16sQ")

# What the learner answers: a status (0: accepted), the length of a sentence that follows, a number.
ANSWER = struct.Struct("<IIQ")

# A ring is the number of a stream. An actor adds `EPISODES`; `LOOK` is the learner's.
RING = struct.Struct("<I")
EPISODES = 1 << 31
LOOK = (1 << 32) - 1

# Of a process. A socket's buffer has room for 278 rings, and must never be full: one for each stream's step,
# and one for each stream's end.
MOST_STREAMS = 128

_ALIGNMENT = 64
_EPISODE = np.dtype([("agent_steps", "<i4"), ("episode_return", "<f4")])
_NO_EPISODE = -1


def is_supported() -> bool:
    """Whether this system can share memory in the way that the board needs."""
    return sys.platform == "linux"


class PartLayout(NamedTuple):
    """The part of the memory that a stream with some environments has; everything in bytes.

    Attributes:
      record_bytes: of all records; they come first.
      episodes: where the episodes begin.
      actions: where the actions begin.
      action_bytes: of all actions.
      size: of the part with padding, so that the next one can begin at its end.
    """

    record_bytes: int
    episodes: int
    actions: int
    action_bytes: int
    size: int


def part_layout(spec: EnvironmentSpec, num_envs: int) -> PartLayout:
    """The layout of the part of a stream with so many environments of this spec."""
    record_bytes = num_envs * StepCodec(spec).record_bytes
    action_bytes = num_envs * ActionCodec(spec.action).action_bytes
    episodes = _round_up(record_bytes, 8)
    actions = episodes + num_envs * _EPISODE.itemsize
    return PartLayout(
        record_bytes, episodes, actions, action_bytes, _round_up(actions + action_bytes, _ALIGNMENT)
    )


def is_aligned(offset: int) -> bool:
    """Whether a part may begin at this offset, in bytes."""
    return offset % _ALIGNMENT == 0


class Part:
    """A stream's part of the memory, as views of it.

    Attributes:
      records: the bytes of all records.
      actions: the bytes of all actions.
    """

    def __init__(self, memory: mmap.mmap, offset: int, layout: PartLayout):
        """Finds everything in the part that begins at `offset`, in bytes."""
        view = memoryview(memory)[offset : offset + layout.size]
        self.records = view[: layout.record_bytes]
        self.actions = view[layout.actions : layout.actions + layout.action_bytes]
        self._episodes = np.frombuffer(view[layout.episodes : layout.actions], _EPISODE)

    def write_episodes(self, episodes: Sequence[pb.Episode], first_env: int) -> None:
        """Writes the episodes that ended with a step; `first_env` is the id of the stream's first one."""
        self._episodes["agent_steps"] = _NO_EPISODE
        for episode in episodes:
            self._episodes[episode.env - first_env] = episode.agent_steps, episode.episode_return

    def read_episodes(self, first_env: int) -> list[pb.Episode]:
        """The episodes that ended with a step; not checked yet."""
        found = self._episodes.copy().tolist()  # The other process may still be writing.
        return [
            pb.Episode(env=first_env + i, episode_return=episode_return, agent_steps=agent_steps)
            for i, (agent_steps, episode_return) in enumerate(found)
            if agent_steps != _NO_EPISODE
        ]


def share_memory(num_bytes: int) -> int:
    """A descriptor of new memory of a fixed size that is really there.

    It has no name in any directory, and ends with the last process that has it.

    Raises:
      OSError: there is not so much memory.
    """
    descriptor = os.memfd_create("seed_rl_board", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
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
    """What a unix socket connects to or listens on; '@' begins names in the abstract namespace."""
    return f"\0{address[1:]}" if address.startswith("@") else address


def _round_up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple
