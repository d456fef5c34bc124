"""Replay of transitions: against lists in plain Python, its proportions, and who waits for whom."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.experience.config import TransitionReplayConfig
from seed_rl.experience.unroll_config import UnrollConfig
from seed_rl.networks.stacking import FrameStack
from seed_rl.types import ArraySpec
from tests.experience.slow_transitions import SHAPE, Streams, assert_is

CONFIG = TransitionReplayConfig(replay_buffer_size=60, replay_buffer_min_size=1, replay_ratio=1e-9)


def cut(n, burn_in=0):
    return UnrollConfig(n, burn_in, period=1, stagger=False, keeps_state=False)


def make(n=3, burn_in=2, num_envs=3, batch_size=8, truncation=0.1, **settings):
    """A replay and the streams that go into it; where the test names no ratio, nobody waits for anybody."""
    unroll = cut(n, burn_in)
    replay = dataclasses.replace(CONFIG, **settings).make(batch_size, unroll, None, seed=0)
    if "replay_ratio" not in settings:
        replay._limiter.may_sample = lambda: True
        replay._limiter.may_insert = lambda: True
    return replay, Streams(replay.store(num_envs, unroll), num_envs, unroll, truncation=truncation)


def drawn(replay, batches):
    """All transitions in this many batches, by (environment, first step), with their number."""
    counts = {}
    for _ in range(batches):
        handle = replay.sample().handle
        for key in zip(handle.env_ids.tolist(), handle.first.tolist(), strict=True):
            counts[key] = counts.get(key, 0) + 1
    return counts


@pytest.mark.parametrize("exponent", [0.0, 0.5])
@pytest.mark.parametrize(("n", "burn_in"), [(1, 0), (1, 3), (3, 0), (3, 3), (5, 1)])
def test_against_lists_in_plain_python(n, burn_in, exponent):
    """Environments at different speeds, episodes that end and are cut short, resets, and rings that wrap."""
    replay, streams = make(n, burn_in, priority_exponent=exponent)
    random = np.random.default_rng(1)
    for turn in range(250):
        if random.random() < 0.08:
            streams.reset(int(random.integers(3)))
        env_ids = random.permutation(np.flatnonzero(random.random(3) < [1.0, 0.7, 0.2])).tolist()
        if not env_ids:
            continue
        completed = streams.advance(env_ids, version=turn)
        expected = streams.transitions(capacity=20)
        newest = {env_id: len(streams.steps[env_id]) - 1 - n for env_id in env_ids}
        assert completed == [env_id for env_id in env_ids if (env_id, newest[env_id]) in expected]
        streams.store.hand_over(completed)
        assert len(replay) == len(expected)
        if expected and turn % 5 == 4:
            sample, versions, (owners, first) = replay.sample()
            assert sample.initial_state == ()
            assert sample.agent.info == {}
            for column, key in enumerate(zip(owners.tolist(), first.tolist(), strict=True)):
                assert key in expected
                assert_is(sample, column, streams.transition(*key))
                assert versions[column] == streams.steps[key[0]][key[1]].version
    assert drawn(replay, 200).keys() == streams.transitions(capacity=20)
    assert len(streams.steps[0]) > 200


def test_the_arrays_have_the_dtypes_and_shapes_of_the_steps():
    replay, streams = make(n=3, burn_in=2)
    streams.play(10)
    sample = replay.sample().sample
    assert sample.env.observation["image"].shape == (6, 8, *SHAPE)
    assert sample.env.observation["image"].dtype == np.uint8
    assert sample.env.done.dtype == sample.env.truncated.dtype == bool
    assert sample.prev_action.dtype == sample.agent.action.dtype == np.int32
    assert (sample.env.reward.dtype, sample.env.reward.shape) == (np.float32, (6, 8))
    assert (sample.weight.dtype, sample.weight.shape) == (np.float32, (8,))


def test_a_batch_does_not_change_when_steps_are_overwritten():
    replay, streams = make()
    streams.play(20)
    batch = replay.sample()
    expected = [streams.transition(*key) for key in zip(*map(np.ndarray.tolist, batch.handle), strict=True)]
    streams.play(200)
    replay.sample()
    for column, steps in enumerate(expected):
        assert_is(batch.sample, column, steps)


@pytest.mark.parametrize("num_frames", [2, 4])
def test_frame_stacks_are_those_of_one_pass_over_the_stream(num_frames):
    """Each transition's stacks, rebuilt from its history, also at the start of a stream and of episodes."""
    replay, streams = make(n=3, burn_in=num_frames - 1, batch_size=64)
    for _ in range(6):
        streams.play(12)
        streams.reset(1)
    stack = FrameStack(num_frames, ArraySpec(SHAPE, "uint8"))
    whole = []
    for steps in streams.steps:
        # Inference starts a new stack with a new stream.
        begins = [t == 0 or steps[t - 1].stream != step.stream for t, step in enumerate(steps)]
        done = np.array([[step.env.done or begin] for step, begin in zip(steps, begins, strict=True)])
        frames = np.stack([step.env.observation["image"] for step in steps])[:, np.newaxis]
        whole.append(stack.stack(tf.constant(frames), tf.constant(done), stack.initial_state(1))[0].numpy())
    sample, _, handle = replay.sample()
    frames, done = tf.constant(sample.env.observation["image"]), tf.constant(sample.env.done)
    stacks = stack.stack(frames, done, stack.initial_state(64))[0].numpy()[num_frames - 1 :]
    for column, (env_id, first) in enumerate(zip(*handle, strict=True)):
        np.testing.assert_array_equal(stacks[:, column], whole[env_id][first : first + 4, 0])
