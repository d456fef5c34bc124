import threading

import numpy as np
import pytest

from seed_rl.experience.compression import NAMES, make_compressor
from tests.experience.threads import Thread


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("raw", [b"", b"a", bytes(100_000), np.random.default_rng(0).bytes(10_000)])
def test_what_goes_in_comes_out(name, raw):
    compressor = make_compressor(name)
    assert compressor.decompress(compressor.compress(raw)) == raw


def test_zstd_makes_frames_small_and_none_leaves_them():
    frames = np.zeros((40, 84, 84), np.uint8)
    frames[:, 40:44, 40:44] = 255
    raw = frames.tobytes()
    assert len(make_compressor("zstd").compress(raw)) < len(raw) / 100
    assert make_compressor("none").compress(raw) == raw


def test_threads_share_a_compressor():
    compressor, barrier = make_compressor("zstd"), threading.Barrier(4)

    def work(seed):
        rng = np.random.default_rng(seed)
        barrier.wait(20)
        for _ in range(50):
            raw = rng.integers(0, 3, 20_000, dtype=np.uint8).tobytes()
            assert compressor.decompress(compressor.compress(raw)) == raw

    for thread in [Thread(work, seed) for seed in range(4)]:
        assert thread.finished()
        assert thread.error is None


def test_unknown_names_are_refused():
    with pytest.raises(
        ValueError, match=r"--replay_compression=gzip is not valid; choose one of: zstd, none\."
    ):
        make_compressor("gzip")
