"""MiniGrid as any other Gymnasium package: `--environment=gym --game=minigrid:MiniGrid-DoorKey-5x5-v0`."""

import numpy as np
import pytest

from seed_rl.environments.batched import BatchedEnvironment
from seed_rl.environments.specs import hash_words
from seed_rl.environments.suites.classic import SUITE, GymConfig
from tests.environments.contract import EnvironmentContract

pytest.importorskip("minigrid")


class TestDoorKey(EnvironmentContract):
    suite, config = SUITE, GymConfig(game="minigrid:MiniGrid-DoorKey-5x5-v0", max_episode_frames=50)


def test_the_mission_goes_as_words():
    batch = BatchedEnvironment(SUITE, GymConfig(game="minigrid:MiniGrid-Empty-5x5-v0"), [0])
    mission = batch.reset().observation["mission"]
    np.testing.assert_array_equal(mission, [hash_words("get to the green goal square")])
    batch.close()
