"""The layout of the shared memory, and the memory itself."""

import fcntl
import mmap
import os

import numpy as np
import pytest

from seed_rl.types import ArraySpec, EnvironmentSpec
from seed_rl.wire.codec import ActionCodec, StepCodec
from seed_rl.wire.generated import inference_pb2 as pb
from seed_rl.wire.shared_memory import Part, allocate, group_layout, is_supported

needs_linux = pytest.mark.skipif(not is_supported(), reason="needs Linux: no shared memory elsewhere")

SPECS = [
    EnvironmentSpec(ArraySpec((3,), "uint8"), ArraySpec((), "int32", (0,), (9,))),
    EnvironmentSpec(ArraySpec((84, 84), "uint8"), ArraySpec((), "int32", (0,), (9,))),
    EnvironmentSpec(ArraySpec((5,), "float32"), ArraySpec((3,), "float32", (-1,) * 3, (1,) * 3)),
]


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("num_envs", [1, 2, 3, 7, 32])
def test_a_part_has_room_for_everything_in_order_and_aligned(spec, num_envs):
    """As the comment at the top of protos/inference.proto has it."""
    layout = group_layout(spec, num_envs)
    assert layout.record_bytes == num_envs * StepCodec(spec).record_bytes
    assert layout.action_bytes == num_envs * ActionCodec(spec.action).action_bytes
    assert layout.record_bytes <= layout.episodes and layout.episodes % 8 == 0
    assert layout.episodes + 8 * num_envs <= layout.figures
    assert layout.figures + 2560 * num_envs <= layout.actions
    assert layout.actions + layout.action_bytes <= layout.group_size and layout.group_size % 64 == 0


def test_parts_side_by_side_keep_what_is_written_to_them():
    spec, num_envs = SPECS[2], 3
    layout = group_layout(spec, num_envs)
    memory = mmap.mmap(-1, 2 * layout.group_size)
    writers, readers = ([Part(memory, group, layout) for group in range(2)] for _ in range(2))
    rng, expected = np.random.default_rng(0), []
    for group, part in enumerate(writers):
        records, actions = rng.bytes(layout.record_bytes), rng.bytes(layout.action_bytes)
        part.write_episodes([pb.Episode(env=env, agent_steps=1) for env in range(num_envs)])
        episodes = [pb.Episode(env=2 - group, episode_return=group - 1.5, agent_steps=10**9 * group)]
        part.records[:], part.actions[:] = records, actions
        part.write_episodes(episodes)  # Those of the step before are gone.
        expected.append((records, actions, episodes))
    assert [(bytes(part.records), bytes(part.actions), part.read_episodes()) for part in readers] == expected


def _written(*steps):
    """Episodes that are read after those of these steps have been written, and the memory."""
    layout = group_layout(SPECS[0], 2)
    memory = mmap.mmap(-1, layout.group_size)
    for episodes in steps:
        Part(memory, 0, layout).write_episodes(episodes)
    return Part(memory, 0, layout).read_episodes(), memory, layout


def _names(count, length):
    return {f"{i:02}".ljust(length, "x"): i / 3 for i in range(count)}


@pytest.mark.parametrize("figures", [{}, {"is_success": 1.0}, _names(32, 64)])
def test_an_episode_keeps_its_figures_and_no_older_ones(figures):
    old = pb.Episode(env=1, agent_steps=1, figures={"old": 1.0})
    new = pb.Episode(env=1, agent_steps=2, figures=figures)
    assert _written([old], [new])[0] == [new]


def test_figures_without_room_are_left_out():
    (found,), _, _ = _written([pb.Episode(env=0, figures=_names(40, 64))])
    assert 32 <= len(found.figures) < 40


@pytest.mark.parametrize("size", [0, 3, 100, 2**32 - 1])
def test_bytes_that_are_no_figures_do_no_harm(size):
    _, memory, layout = _written([pb.Episode(env=1, agent_steps=7)])
    begin = layout.figures + 2560
    memory[begin : begin + 2560] = size.to_bytes(4, "little") + b"\xff" * 2556
    assert Part(memory, 0, layout).read_episodes() == [pb.Episode(env=1, agent_steps=7)]


@needs_linux
def test_memory_has_a_fixed_size_and_no_name():
    descriptor = allocate(5000)
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
