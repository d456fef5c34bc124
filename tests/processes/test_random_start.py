"""A whole run with random starts: the episodes that it reports are whole ones of the policy."""

import pytest

pytestmark = pytest.mark.slow

ENVIRONMENT = """
import gymnasium
import numpy as np

class Long(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (3,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.played = 0
        return np.zeros(3, np.float32), {}

    def step(self, action):
        self.played += 1
        return np.zeros(3, np.float32), 1.0, self.played == 40, False, {}

gymnasium.register("Long-v0", Long)
"""
FAILING = ENVIRONMENT.replace("self.played += 1\n", "raise OSError('the engine is gone')\n")
GAME = ("--environment=gym", "--game=long:Long-v0", "--random_start_steps=1000")


def test_only_whole_episodes_are_reported(house):
    (house.path / "long.py").write_text(ENVIRONMENT)
    learner = house.learner(*GAME, "--num_envs=8")
    actors = [house.actor(*GAME) for _ in range(2)]
    found = house.wait_for_metrics(lambda line: line["episodes"] >= 24, learner)
    # Random agent steps are in no return, and so the rest of such an episode would be shorter.
    assert found["mean_return"] == found["mean_episode_agent_steps"] == 40
    assert all(actor.running for actor in actors)


def test_an_environment_that_fails_in_its_random_start_ends_its_actor_with_a_sentence(house):
    (house.path / "long.py").write_text(FAILING)
    house.learner(*GAME, "--num_envs=4")
    actor = house.actor(*GAME, "--max_environment_failures=0")
    assert actor.end() == 1
    assert "Traceback" not in actor.output
    assert actor.last_line.startswith("seed_rl: error: Environment ")
    assert "failed in episode 1 at agent step 1: step() raised OSError: the engine is gone" in actor.last_line
