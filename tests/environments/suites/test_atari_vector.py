"""What ale-py's own vector environment has in common with ours, frame by frame, and what not.

It is not offered as a faster option because of what differs: Table 9 of the paper resizes bilinearly. Should
this test fail with a new version of ale-py, think again.
"""

import numpy as np
import pytest

from seed_rl.environments.suites.atari import AtariConfig, make

vector_env = pytest.importorskip("ale_py.vector_env")
cv2 = pytest.importorskip("cv2")


def test_rewards_ends_and_pooling_agree_but_the_resizing_does_not():
    theirs = vector_env.AtariVectorEnv(
        "breakout", 1, noop_max=0, full_action_space=True, stack_num=1, num_threads=1, use_fire_reset=False
    )
    ours = make(AtariConfig(game="Breakout", max_random_noops=0), 0)
    frames = [(theirs.reset(seed=0)[0], ours.reset()[0], _resized_by_area(ours))]
    terminated = False
    for action in np.random.default_rng(0).integers(18, size=300):
        their_frame, *their_step, _ = theirs.step(np.array([action]))
        our_frame, *our_step, _ = ours.step(action)
        assert [value[0] for value in their_step] == our_step
        if terminated := our_step[1]:
            break
        frames.append((their_frame.copy(), our_frame, _resized_by_area(ours)))
    assert terminated
    for their_frame, bilinear, area in frames:
        np.testing.assert_array_equal(their_frame[0, 0], area)
        assert not np.array_equal(their_frame[0, 0], bilinear)


def _resized_by_area(env):
    return cv2.resize(np.maximum(*env._frames), (84, 84), interpolation=cv2.INTER_AREA)
