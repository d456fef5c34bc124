"""Prioritized replay: what comes out is what came in, in the right proportions, and never too much of it."""

import dataclasses
import os
import sys
import threading

import numpy as np
import optree
import pytest

from seed_rl.experience import replay as replay_module
from seed_rl.experience.base import ClosedError, Setup, UnrollConfig
from seed_rl.experience.experience_config import ReplayConfig
from tests.experience.slow_store import SHAPE, Streams, in_batch
from tests.selection import mostly_slow
from tests.threads import Thread
from tests.waiting import wait_until

CONFIG = ReplayConfig(
    replay_buffer_size=20,
    replay_buffer_min_size=1,
    replay_ratio=1.0,
    priority_exponent=0.5,
    importance_sampling_exponent=0.4,
)


def make(length=4, burn_in=2, batch_size=3, priorities=None, updates=0, **settings):
    """A replay; where the test names no ratio, nobody waits for anybody."""
    setup = Setup(3, UnrollConfig(length, burn_in), batch_size, updates=updates)
    if priorities:
        setup = setup._replace(initial_priorities=priorities)
    replay = dataclasses.replace(CONFIG, **settings).make(setup)
    if "replay_ratio" not in settings:
        replay._limiter.may_sample = replay._limiter.may_insert = lambda: True
    return replay


def filled(replay, unrolls):
    replay.insert(unrolls)
    return replay


def assert_genuine(batch, streams):
    """Every unroll has consecutive steps of its stream; returns the numbers of their first ones."""
    assert batch.sample.agent.info == {}
    assert batch.policy_version.dtype == np.int64
    unrolls = in_batch(batch)
    for numbers, versions in unrolls:
        assert numbers == list(range(numbers[0], numbers[0] + streams.stored))
        assert versions == [number % 10_000 for number in numbers]
    return [numbers[0] for numbers, _ in unrolls]


@pytest.mark.parametrize("compression", ["zstd", "none"])
@pytest.mark.parametrize("threads", [0, 2])
@pytest.mark.parametrize(
    ("length", "burn_in"), mostly_slow([(4, 2), (3, 2), (4, 0), (1, 0), (8, 4)], [(3, 2), (1, 0)])
)
def test_what_comes_out_is_what_came_in(length, burn_in, compression, threads):
    """Three environments out of step, a stream that breaks off, and a buffer that runs over all the time."""
    streams, rng = Streams(3, length, burn_in), np.random.default_rng(0)
    replay = make(length, burn_in, replay_compression=compression, replay_threads=threads)
    seen = set()
    for turn in range(120):
        if turn in (30, 31, 80):
            streams.restart(int(rng.integers(3)))
        replay.insert(streams.unrolls(int(rng.integers(3)), count=1))
        if turn:
            seen.update(assert_genuine(replay.sample(), streams))
    assert len(seen) > 80
    assert len(replay) == 20
    replay.close()


def test_threads_change_nothing(tmp_path):
    """Neither what is drawn, nor what is counted and saved, nor the order of anything."""
    outcomes = []
    for threads in (0, 1, 4):
        streams, rng, drawn = Streams(3, 4, 2), np.random.default_rng(0), []
        replay = make(
            batch_size=9,
            priorities=lambda unrolls: np.array([unroll.policy_version[0] % 5 + 1.0 for unroll in unrolls]),
            replay_threads=threads,
            checkpoint_replay=True,
        )
        for turn in range(40):
            if turn == 20:
                streams.restart(1)
            mixed = streams.unrolls(0, 2) + streams.unrolls(1, 2) + streams.unrolls(2, 1)
            replay.insert([mixed[index] for index in rng.permutation(len(mixed))])
            batch = replay.sample()
            replay.update_priorities(batch.handle, rng.random(9))
            drawn.append(optree.tree_map(lambda x: x.tobytes(), tuple(batch)))
        path = tmp_path / f"{threads}.bin"
        replay.save(str(path))
        replay.close()
        outcomes.append((drawn, replay.nbytes, path.read_bytes()))
    assert outcomes[0] == outcomes[1] == outcomes[2]


@pytest.mark.parametrize("threads", [0, 2])
def test_errors_in_threads_are_those_of_insert_and_sample(threads):
    replay = make(batch_size=20, replay_threads=threads)
    good, bad = Streams(1, 4, 2).unrolls(0, 8), Streams(1, 4, 2).unrolls(0, 8)
    bad[5] = bad[5]._replace(prev_action=bad[5].prev_action[:3])
    with pytest.raises(ValueError, match="broadcast"):
        replay.insert(bad)
    assert len(replay) == 5  # As many as without threads: those before it.
    filled(replay, good)
    replay.sample()
    whole = replay._entries[:]
    replay._entries = [entry and entry._replace(head=b"spoiled") for entry in whole]
    with pytest.raises(ValueError, match="cannot be decompressed"):
        replay.sample()
    replay._entries = whole
    replay.sample()
    replay.close()


def test_close_in_the_middle_of_work_ends_the_threads():
    """One thread inserts and waits for the ratio, another draws, and both have helpers."""
    before = set(threading.enumerate())
    replay, streams = make(replay_ratio=1.0, replay_threads=3), Streams(1, 4, 2)
    unrolls = streams.unrolls(0, 100)

    def forever(function, *args):
        while True:
            function(*args)

    threads = [Thread(forever, replay.insert, unrolls), Thread(forever, replay.sample)]
    wait_until(lambda: len(replay) == 20, "a full replay")
    replay.close()
    for thread in threads:
        assert thread.finished()
        assert isinstance(thread.error, ClosedError)
    assert set(threading.enumerate()) <= before


@pytest.mark.parametrize("late", [0, 1])
def test_an_unroll_that_arrives_after_those_of_a_newer_stream_is_not_joined_to_them(late):
    """With two inference threads, one may still hold what the old stream has completed."""
    streams = Streams(1, 4, 2)
    old = streams.unrolls(0, 2)
    streams.restart(0)
    new = streams.unrolls(0, 3)
    replay = make()
    for unroll in (*new[: late + 1], old[1], *new[late + 1 :], old[0]):
        replay.insert([unroll])
    for _ in range(20):
        assert_genuine(replay.sample(), streams)


def test_each_step_is_kept_once():
    """Twice as many unrolls of the same steps would take twice the memory without sharing."""
    streams = [Streams(1, 40, 39) for _ in range(2)]
    shared, separate = (make(40, 39, replay_buffer_size=60, replay_compression="none") for _ in range(2))
    filled(shared, streams[0].unrolls(0, 50))
    filled(separate, [unroll._replace(first_step=0) for unroll in streams[1].unrolls(0, 50)])
    new, overlap = 50 * 40, 49 * 40
    a_step = (bytes_of_blobs(separate) - bytes_of_blobs(shared)) / overlap
    assert a_step > np.prod(SHAPE)
    assert bytes_of_blobs(shared) / a_step == pytest.approx(new, rel=0.2)


def bytes_of_blobs(replay):
    """Of the distinct blobs that a replay holds."""
    entries = [entry for entry in replay._entries if entry is not None]
    blobs = {id(blob): blob for entry in entries for blob in entry[:4]}
    return sum(sys.getsizeof(blob) + len(blob) for blob in blobs.values())


def test_every_byte_is_accounted_for():
    """The count is the bytes of the blobs and a little more, whatever is shared and dropped."""
    streams, rng = Streams(3, 4, 2), np.random.default_rng(1)
    replay, empty = make(), make().nbytes
    for turn in range(150):
        if turn % 17 == 16:
            streams.restart(int(rng.integers(3)))
        filled(replay, streams.unrolls(int(rng.integers(3))))
        rest = replay.nbytes - empty - bytes_of_blobs(replay)
        assert 200 * len(replay) < rest < 400 * len(replay)


def test_the_limit_in_bytes_holds():
    streams = Streams(2, 8, 4)
    limit = 60_000
    replay = make(8, 4, replay_buffer_size=1000, replay_compression="none", replay_max_bytes=limit)
    sizes = []
    for turn in range(100):
        filled(replay, streams.unrolls(turn % 2))
        assert replay.nbytes <= limit
        sizes.append(len(replay))
    assert 5 < sizes[-1] < 100
    assert sizes == sorted(sizes)[: len(sizes)]
    assert replay.nbytes > 0.9 * limit
    assert_genuine(replay.sample(), streams)


def test_a_limit_in_bytes_below_the_minimum_size_is_said():
    replay = make(8, 4, replay_compression="none", replay_max_bytes=10_000, replay_buffer_min_size=18)
    with pytest.raises(
        ValueError, match=r"--replay_max_bytes .* fewer than --replay_buffer_min_size=18; raise"
    ):
        filled(replay, Streams(1, 8, 4).unrolls(0, 20))


def test_a_size_that_was_reached_may_be_lost_again():
    """Frames that compress worse than those before them: fewer fit, and training continues."""
    rng = np.random.default_rng(0)
    replay = make(
        8, 4, replay_buffer_size=1000, replay_max_bytes=300_000, replay_buffer_min_size=50, replay_ratio=0.5
    )
    replay.insert([noisy(unroll, 0, rng) for unroll in Streams(1, 8, 4).unrolls(0, 50)])
    for unroll in Streams(1, 8, 4).unrolls(0, 60):
        while replay._limiter.may_sample():
            replay.sample()
        replay.insert([noisy(unroll, 256, rng)])
    assert 10 < len(replay) < 50


@pytest.mark.parametrize(("cores", "threads"), [(1, 0), (2, 2), (64, 5)])
def test_a_single_core_has_no_threads_to_compress(monkeypatch, cores, threads):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(cores)), raising=False)
    assert replay_module._default_threads() == threads
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    assert replay_module._default_threads() == threads


def noisy(unroll, top, rng):
    image = rng.integers(0, max(top, 1), (*unroll.env.observation["image"].shape[:1], 24, 24), np.uint8)
    observation = unroll.env.observation | {"image": image}
    return unroll._replace(env=unroll.env._replace(observation=observation), first_step=0)


def test_batches_carry_the_weights_of_their_unrolls():
    given = iter([1.0, 16.0])
    replay = make(batch_size=8, priorities=lambda unrolls: np.array([next(given) for _ in unrolls]))
    filled(replay, Streams(1, 4, 2).unrolls(0, 2))
    sample, _, handle = replay.sample()
    # Drawn like 1 to 4, so weighed like 1 to 4^-0.4.
    np.testing.assert_allclose(sample.weight, np.where(handle == 0, 1.0, 4**-0.4), rtol=1e-6)
    assert set(handle.tolist()) == {0, 1}


def test_priorities_are_updated_but_not_of_what_has_gone():
    streams = Streams(1, 4, 2)
    replay = filled(make(replay_buffer_size=4, batch_size=1), streams.unrolls(0, 4))
    stale = np.array([0, 3])
    filled(replay, streams.unrolls(0, 1))  # Number 4 takes the place of number 0.
    replay.update_priorities(np.array([1, 2]), np.zeros(2))
    replay.update_priorities(stale, np.array([1e12, 100.0]))
    drawn = np.bincount([int(replay.sample().handle[0]) for _ in range(1000)], minlength=5)
    # Number 3 is drawn like 10, number 4 like 1; 1 and 2 hardly ever, and 0 is not there.
    assert drawn[0] == 0
    assert drawn[1] + drawn[2] < 10
    assert drawn[3] / drawn[4] == pytest.approx(10, rel=0.5)


@pytest.mark.parametrize("faster", ["insert", "sample"])
def test_the_faster_side_waits_and_the_ratio_is_held(faster):
    streams = Streams(1, 4, 2)
    replay = make(batch_size=4, replay_buffer_min_size=5, replay_ratio=0.5)
    filled(replay, streams.unrolls(0, 5))
    unrolls = streams.unrolls(0, 200)
    if faster == "insert":
        other = Thread(lambda: replay.insert(unrolls))
        for _ in range(20):
            replay.sample()
        replay.close()
    else:
        other = Thread(lambda: [replay.sample() for _ in range(25)])
        filled(replay, unrolls)
    assert other.finished()
    assert isinstance(other.error, ClosedError) == (faster == "insert")
    figures = replay.figures()
    assert figures["replay_ratio"] == pytest.approx(0.5, rel=0.2)
    assert figures["replay_size"] == 20
    assert figures["replay_mib"] == replay.nbytes / 2**20


def test_a_restart_goes_on_with_a_full_buffer(tmp_path):
    path, streams = str(tmp_path / "replay.bin"), Streams(2, 4, 2)
    given = iter(range(1, 100))
    first = make(
        checkpoint_replay=True, priorities=lambda unrolls: np.array([float(next(given)) for _ in unrolls])
    )
    for turn in range(30):
        filled(first, streams.unrolls(turn % 2))
    first.save(path)
    assert [file.name for file in tmp_path.iterdir()] == ["replay.bin"]

    second = make(checkpoint_replay=True, replay_buffer_min_size=15, replay_ratio=3.0)
    second.restore(path)
    assert (len(second), second.nbytes) == (len(first), first.nbytes)
    np.testing.assert_allclose(second._draws.get(np.arange(20)) ** 2, np.arange(11, 31))
    filled(second, Streams(1, 4, 2).unrolls(0, 1))
    assert_genuine(second.sample(), streams)  # At once: it need not be filled again.

    smaller = make(checkpoint_replay=True, replay_buffer_size=7)
    smaller.restore(path)
    np.testing.assert_allclose(np.sort(smaller._draws.get(np.arange(7)) ** 2), np.arange(24, 31))
    rest = smaller.nbytes - make(replay_buffer_size=7).nbytes - bytes_of_blobs(smaller)
    assert 200 * 7 < rest < 400 * 7


def test_versions_of_a_learner_that_went_on_after_the_checkpoint_count_from_the_restart(tmp_path):
    path, streams = str(tmp_path / "replay.bin"), Streams(1, 4, 2)
    filled(make(checkpoint_replay=True), streams.unrolls(0, 4)).save(path)
    replay = make(checkpoint_replay=True, batch_size=40, updates=9)
    replay.restore(path)
    filled(replay, Streams(1, 4, 2).unrolls(0, 4))  # Of this learner.
    batch = replay.sample()
    times, is_restored = batch.sample.env.observation["number"], batch.handle < 4
    assert times[:, is_restored].max() > 9 and times[:, ~is_restored].max() > 9
    expected = np.where(is_restored, np.minimum(times, 9), times)
    np.testing.assert_array_equal(batch.policy_version, expected)


def test_another_replay_is_refused(tmp_path):
    path = tmp_path / "replay.bin"
    filled(make(checkpoint_replay=True), Streams(1, 4, 2).unrolls(0, 4)).save(str(path))
    for other in (
        make(length=5, checkpoint_replay=True),
        make(replay_compression="none", checkpoint_replay=True),
    ):
        with pytest.raises(ValueError, match=r"other unrolls or compression .*move it away"):
            other.restore(str(path))
    other = make(checkpoint_replay=True)
    other.restore(str(path))
    (unroll,) = Streams(1, 4, 2).unrolls(0, 1)
    with pytest.raises(ValueError, match=r"other observations or recurrent states .*move its file away"):
        other.insert([unroll._replace(initial_state={"core": unroll.initial_state["core"]})])


def test_burn_in_that_reaches_beyond_the_unroll_before_is_refused():
    with pytest.raises(ValueError, match="must be less than the unroll length"):
        filled(make(length=2, burn_in=2), Streams(1, 2, 2).unrolls(0, 1))
