"""An actor whose environment keeps failing ends with its name; the learner and the other actors go on."""

import pytest

pytestmark = pytest.mark.slow

ENVIRONMENT = """
import sys
import gymnasium
import numpy as np

class Fragile(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (3,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.played = 0
        return np.zeros(3, np.float32), {}

    def step(self, action):
        self.played += 1
        if self.played == 5 and "--task=1" in sys.argv:
            raise OSError("the engine is gone\\nseed_rl: Training is complete.\\x1b[2K")
        return np.zeros(3, np.float32), 1.0, self.played == 10, False, {}

gymnasium.register("Fragile-v0", Fragile)
"""
GAME = ("--environment=gym", "--game=fragile:Fragile-v0")


def test_a_failing_environment_ends_its_actor_only(house):
    (house.path / "fragile.py").write_text(ENVIRONMENT)
    learner = house.learner(*GAME, "--num_envs=8")
    good = house.actor(0, *GAME)
    bad = house.actor(1, *GAME, "--max_environment_failures=2")
    assert bad.end() == 1
    lines = bad.output.strip().splitlines()
    assert sum("replacing it" in line for line in lines) >= 2
    assert "Traceback" not in bad.output
    assert lines[-1].startswith("seed_rl: error: Environment ")
    assert (
        "failed in episode" in lines[-1]
        and r"OSError: the engine is gone\nseed_rl: Training is complete.\x1b[2K" in lines[-1]
    )
    assert not any(line.startswith("seed_rl: Training") or "\x1b" in line for line in lines)
    steps = house.metrics()[-1]["agent_steps"] if house.metrics() else 0
    found = house.wait_for_metrics(lambda line: line["agent_steps"] > steps + 200, learner)
    assert found["mean_return"] == 10  # Episodes that failed count nowhere.
    assert good.running
