"""Memory that is used again, memory that is packed, and how much of it there may be."""

import gc
import mmap
import weakref

import numpy as np
import psutil
import pytest
import tensorflow as tf

from seed_rl.experience import memory
from seed_rl.experience.memory import Arena, BufferPool, machine_memory, replay_limit

FLOAT = np.dtype(np.float32)
GIB = 2**30


def address(array):
    return array.__array_interface__["data"][0]


def test_memory_comes_back_when_the_array_is_gone():
    pool = BufferPool()
    first, second = pool.array((3, 4), FLOAT), pool.array((3, 4), FLOAT)
    assert (first.shape, first.dtype) == ((3, 4), np.float32)
    assert address(first) != address(second)
    before = address(first)
    del first
    gc.collect()
    assert address(pool.array((4, 3), FLOAT)) == before
    assert pool.array((0, 5), FLOAT).size == 0


def test_views_and_tensors_keep_the_memory():
    pool = BufferPool()
    array = pool.array((1024, 4), FLOAT)
    array[:] = 1
    view, tensor = array[5:7].T, tf.convert_to_tensor(array)
    del array
    gc.collect()
    for _ in range(3):
        pool.array((1024, 4), FLOAT)[:] = 2
    assert (view == 1).all()
    assert (tensor.numpy() == 1).all()
    del view
    gc.collect()
    pool.array((1024, 4), FLOAT)[:] = 3
    assert (tensor.numpy() == 1).all()


@pytest.mark.parametrize("segment_bytes", [30, 100])  # Some blobs are larger than a segment.
def test_blobs_keep_their_bytes(segment_bytes):
    arena = Arena(segment_bytes)
    blobs = [bytes([n]) * (n % 60) for n in range(1, 200)]
    kept = [arena.put(blob) for blob in blobs]
    assert [bytes(view) for view in kept] == blobs


def test_a_segment_goes_with_its_last_blob(monkeypatch):
    segments = weakref.WeakSet()

    class Mapping(mmap.mmap):
        """Can be watched."""

        def __new__(cls, *args):
            segment = super().__new__(cls, *args)
            segments.add(segment)
            return segment

    monkeypatch.setattr(memory.mmap, "mmap", Mapping)
    arena = Arena(100)
    kept = [arena.put(bytes(40)) for _ in range(20)]  # Two to a segment.
    assert len(segments) == 10
    del kept[1:9]
    gc.collect()
    assert len(segments) == 7  # The first lives on with the blob that is left.
    del kept[0]
    gc.collect()
    assert len(segments) == 6


def test_the_machine_or_its_container_is_the_limit(tmp_path, monkeypatch):
    total = psutil.virtual_memory().total
    small, unlimited = tmp_path / "small", tmp_path / "unlimited"
    small.write_text("1048576\n")
    unlimited.write_text("max\n")
    monkeypatch.setattr(memory, "_CGROUP_LIMITS", (str(unlimited), str(tmp_path / "nowhere")))
    assert machine_memory() == total
    monkeypatch.setattr(memory, "_CGROUP_LIMITS", (str(unlimited), str(small)))
    assert machine_memory() == 1048576


def test_half_of_the_memory_unless_given_and_never_more_than_there_is():
    assert replay_limit(None, 8 * GIB) == 4 * GIB
    assert replay_limit(7 * GIB, 8 * GIB) == 7 * GIB
    sentence = r"--replay_max_bytes=17179869184 \(16.0 GiB\) is more than .* \(8.0 GiB\); lower it"
    with pytest.raises(ValueError, match=sentence):
        replay_limit(16 * GIB, 8 * GIB)
