"""The layout of the shared memory, and the memory itself."""

import fcntl
import mmap
import os

import numpy as np
import pytest

from seed_rl.types import ArraySpec, EnvironmentSpec
from seed_rl.wire.board import (
    Part,
    is_aligned,
    is_supported,
    part_layout,
    share_memory,
    socket_address,
)
from seed_rl.wire.codec import ActionCodec, StepCodec
from seed_rl.wire.generated import inference_pb2 as pb
from tests.descriptors import descriptors_after

needs_linux = pytest.mark.skipif(not is_supported(), reason="needs Linux: no board elsewhere")


SPECS = [
    EnvironmentSpec(ArraySpec((3,), "uint8"), ArraySpec((), "int32", (0,), (9,))),
    EnvironmentSpec(ArraySpec((84, 84), "uint8"), ArraySpec((), "int32", (0,), (9,))),
    EnvironmentSpec(ArraySpec((5,), "float32"), ArraySpec((3,), "float32", (-1,) * 3, (1,) * 3)),
]


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("num_envs", [1, 2, 3, 7, 32])
def test_a_part_has_room_for_everything_in_order_and_aligned(spec, num_envs):
    """As the comment at the top of protos/inference.proto has it."""
    layout = part_layout(spec, num_envs)
    assert layout.record_bytes == num_envs * StepCodec(spec).record_bytes
    assert layout.episodes == -(-layout.record_bytes // 8) * 8
    assert layout.actions == layout.episodes + 8 * num_envs
    assert layout.action_bytes == num_envs * ActionCodec(spec.action).action_bytes
    assert layout.size >= layout.actions + layout.action_bytes
    assert is_aligned(layout.size) and not is_aligned(layout.size + 8)
    assert layout.size <= num_envs * part_layout(spec, 1).size  # Which is what a learner allows.


def test_parts_side_by_side_keep_what_is_written_to_them():
    spec, num_envs = SPECS[2], 3
    layout = part_layout(spec, num_envs)
    memory = mmap.mmap(-1, 2 * layout.size)
    writers, readers = ([Part(memory, i * layout.size, layout) for i in range(2)] for _ in range(2))
    rng = np.random.default_rng(0)
    expected = []
    for i, part in enumerate(writers):
        records, actions = rng.bytes(layout.record_bytes), rng.bytes(layout.action_bytes)
        episodes = [pb.Episode(env=10 + i, episode_return=i + 0.5, agent_steps=7 * i)]
        part.records[:], part.actions[:] = records, actions
        part.write_episodes(episodes, 10)
        expected.append((records, actions, episodes))
    found = [(bytes(part.records), bytes(part.actions), part.read_episodes(10)) for part in readers]
    assert found == expected


def test_episodes_of_the_step_before_are_gone():
    layout = part_layout(SPECS[0], 3)
    part = Part(mmap.mmap(-1, layout.size), 0, layout)
    first = [pb.Episode(env=env, episode_return=-1.5, agent_steps=0) for env in (4, 6)]
    part.write_episodes(first, 4)
    assert part.read_episodes(4) == first
    second = [pb.Episode(env=5, episode_return=2.0, agent_steps=10**9)]
    part.write_episodes(second, 4)
    assert part.read_episodes(4) == second


@needs_linux
def test_shared_memory_has_a_fixed_size_and_no_name():
    descriptor = share_memory(5000)
    try:
        assert os.fstat(descriptor).st_size == 5000
        assert os.fstat(descriptor).st_blocks * 512 >= 5000  # It is there.
        assert os.fstat(descriptor).st_nlink == 0
        for size in (100, 10_000):
            with pytest.raises(PermissionError):
                os.ftruncate(descriptor, size)
        with pytest.raises(PermissionError):
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)
        assert not os.get_inheritable(descriptor)
        mine, other = (mmap.mmap(descriptor, 5000) for _ in range(2))
        mine[4999] = 7
        assert other[4999] == 7
    finally:
        os.close(descriptor)


@needs_linux
def test_a_shortage_of_memory_leaves_no_descriptor():
    failing = """
def fail(*_): raise OSError(28, "No space left on device")
from seed_rl.wire.board import share_memory
os.posix_fallocate = fail
"""
    sharing = """
try: share_memory(4096)
except OSError as error: assert "No space left" in str(error)
else: raise AssertionError("memory")
"""
    assert descriptors_after(failing, sharing) == [0]


def test_addresses_of_sockets():
    assert socket_address("/run/a.board") == "/run/a.board"
    assert socket_address("@seed_rl/1") == "\0seed_rl/1"
