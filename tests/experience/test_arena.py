import gc
import weakref

from seed_rl.experience import arena as arena_module
from seed_rl.experience.arena import Arena


def test_blobs_keep_their_bytes():
    arena = Arena(100)
    blobs = [bytes([n]) * (n % 60) for n in range(1, 200)]
    kept = [arena.put(blob) for blob in blobs]
    assert [bytes(view) for view in kept] == blobs


def test_a_blob_may_be_larger_than_a_segment():
    arena = Arena(10)
    assert bytes(arena.put(b"x" * 50)) == b"x" * 50
    assert bytes(arena.put(b"y")) == b"y"


def test_a_segment_goes_with_its_last_blob(monkeypatch):
    segments = weakref.WeakSet()

    class Mapping(arena_module.mmap.mmap):
        """Can be watched."""

        def __new__(cls, *args):
            segment = super().__new__(cls, *args)
            segments.add(segment)
            return segment

    monkeypatch.setattr(arena_module.mmap, "mmap", Mapping)
    arena = Arena(100)
    kept = [arena.put(bytes(40)) for _ in range(20)]  # Two to a segment.
    assert len(segments) == 10
    del kept[1:9]
    gc.collect()
    assert len(segments) == 7  # The first lives on with the blob that is left.
    del kept[0]
    gc.collect()
    assert len(segments) == 6
