import numpy as np

from seed_rl.ops.rewards import clip_reward, soft_asymmetric

REWARDS = np.array([-20.0, -1.0, -0.1, 0.0, 0.1, 1.0, 20.0], np.float32)


def test_clip_limits_both_ways():
    np.testing.assert_allclose(clip_reward(REWARDS, 0.5), [-0.5, -0.5, -0.1, 0, 0.1, 0.5, 0.5])


def test_zero_leaves_rewards_alone():
    np.testing.assert_array_equal(clip_reward(REWARDS, 0), REWARDS)


def test_soft_asymmetric():
    expected = [(0.3 if r < 0 else 1.0) * 5 * np.tanh(r / 5) for r in REWARDS]
    np.testing.assert_allclose(soft_asymmetric(REWARDS), expected, rtol=1e-5)
