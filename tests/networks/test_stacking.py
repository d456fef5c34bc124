import numpy as np
import pytest
import tensorflow as tf

from seed_rl.networks.stacking import FrameStack
from seed_rl.types import ArraySpec

T, B = 11, 3


def reference(frames, done, num_frames):
    """For each step, the last `num_frames` frames of its episode, oldest first; zeros before its start."""
    stacks = np.zeros((*frames.shape, num_frames), np.uint8)
    for b in range(frames.shape[1]):
        episode = []
        for t in range(frames.shape[0]):
            episode = [frames[t, b]] if done[t, b] else [*episode, frames[t, b]]
            for age, frame in enumerate(reversed(episode[-num_frames:])):
                stacks[t, b, ..., num_frames - 1 - age] = frame
    return stacks.reshape(*frames.shape[:4], -1)


def random_frames(shape, num_steps=T, seed=0):
    rng = np.random.default_rng(seed)
    frames = rng.integers(1, 256, (num_steps, B, *shape), dtype=np.uint8)
    done = rng.random((num_steps, B)) < 0.25
    done[0] = [True, False, False]
    return frames, done


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("num_frames", [1, 2, 4, 8])
@pytest.mark.parametrize("shape", [(3, 5), (3, 2, 5)])
def test_equals_the_reference_across_episode_ends(num_frames, shape, is_packed):
    """Packed frames are stacked as they are, and then unpacked."""
    frames, done = random_frames(shape)
    spec, sent = ArraySpec(shape, "uint8"), frames
    if is_packed:
        frames %= 2
        spec, sent = ArraySpec.packed(shape), np.packbits(frames.reshape(T, B, -1), axis=-1)
    stack = FrameStack(num_frames, spec)
    stacks, state = stack.stack(sent, done, stack.initial_state(B))
    assert stacks.dtype == tf.uint8 and stacks.shape == (T, B, *stack.shape)
    np.testing.assert_array_equal(stacks, reference(frames, done, num_frames))
    assert num_frames == 1 or state.shape == (B, *spec.shape, num_frames)


@pytest.mark.parametrize("lengths", [[1] * T, [4, 1, 6]])
def test_goes_on_across_unrolls(lengths):
    stack = FrameStack(4, ArraySpec((3, 2), "uint8"))
    frames, done = random_frames((3, 2))
    state, parts, start = stack.initial_state(B), [], 0
    for length in lengths:
        part, state = stack.stack(frames[start : start + length], done[start : start + length], state)
        parts.append(part)
        start += length
    np.testing.assert_array_equal(np.concatenate(parts), reference(frames, done, 4))
