import threading

import numpy as np
import pytest

from seed_rl.experience.layout import COMPRESSORS
from tests.threads import Thread


def array(raw):
    return np.frombuffer(raw, np.uint8)


def back(compressor, compressed, size):
    raw = np.full(size, 7, np.uint8)
    compressor.decompress(memoryview(compressed), raw)
    return raw.tobytes()


@pytest.mark.parametrize("name", COMPRESSORS)
@pytest.mark.parametrize("raw", [b"abc", bytes(100_000), np.random.default_rng(0).bytes(1_000_000)])
def test_what_goes_in_comes_out_and_another_size_is_refused(name, raw):
    compressor = COMPRESSORS[name]()
    compressed = compressor.compress(array(raw))
    assert back(compressor, compressed, len(raw)) == raw
    for wrong, size in ((compressed, len(raw) + 2), (compressed[:-1], len(raw))):
        with pytest.raises(ValueError):
            back(compressor, wrong, size)


def test_zstd_makes_frames_small_and_none_leaves_them():
    frames = np.zeros((40, 84, 84), np.uint8)
    frames[:, 40:44, 40:44] = 255
    assert len(COMPRESSORS["zstd"]().compress(frames.reshape(-1))) < frames.nbytes / 100
    assert COMPRESSORS["none"]().compress(frames.reshape(-1)) == frames.tobytes()


def test_threads_share_a_compressor():
    compressor, barrier = COMPRESSORS["zstd"](), threading.Barrier(4)

    def work(seed):
        rng = np.random.default_rng(seed)
        barrier.wait(20)
        for _ in range(50):
            raw = rng.integers(0, 3, 20_000, dtype=np.uint8)
            assert back(compressor, compressor.compress(raw), len(raw)) == raw.tobytes()

    for thread in [Thread(work, seed) for seed in range(4)]:
        assert thread.finished()
        assert thread.error is None
