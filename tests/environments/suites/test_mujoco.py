"""MuJoCo's environments as any others of Gymnasium: vectors in, continuous actions out."""

import pytest

from seed_rl.environments.suites.classic import SUITE, GymConfig
from tests.environments.contract import EnvironmentContract

pytest.importorskip("mujoco")


class TestHopper(EnvironmentContract):
    suite, config = SUITE, GymConfig(game="Hopper-v5")


class TestHalfCheetah(EnvironmentContract):
    """Only its time limit, here a short one, ends an episode."""

    suite, config = SUITE, GymConfig(game="HalfCheetah-v5", max_episode_frames=100)
