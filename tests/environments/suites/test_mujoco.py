"""MuJoCo's environments as any others of Gymnasium: vectors in, continuous actions out."""

import numpy as np
import pytest

from seed_rl.environments.batched import make_batched
from seed_rl.environments.suites.classic import SUITE, GymConfig
from tests.environments.contract import SettingsContract

pytest.importorskip("mujoco")


class TestHopper(SettingsContract):
    suite, config = SUITE, GymConfig(game="Hopper-v5")


class TestHalfCheetah(SettingsContract):
    """Only its time limit, here a short one, ends an episode."""

    suite, config = SUITE, GymConfig(game="HalfCheetah-v5", max_episode_frames=100)


@pytest.mark.parametrize(("game", "observation", "action"), [("HalfCheetah-v5", 17, 6), ("Hopper-v5", 11, 3)])
def test_actions_are_bounded_and_observations_float32(game, observation, action):
    batch = make_batched(SUITE, GymConfig(game=game), [0])
    assert (batch.spec.observation.shape, batch.spec.observation.dtype) == ((observation,), "float32")
    assert batch.spec.action.shape == (action,)
    assert batch.spec.action.minimum == (-1.0,) * action
    assert batch.spec.action.maximum == (1.0,) * action
    batch.reset()
    output, _ = batch.step(np.full((1, action), 7.0, np.float32))  # clipped to the bounds
    assert np.isfinite(output.observation).all()
    batch.close()
