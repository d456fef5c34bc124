"""Runs whose episodes all end at a time limit: the agent steps of a run are those of its episodes."""

import pytest

from tests.selection import mostly_long

pytestmark = pytest.mark.slow

ENVIRONMENT = """
import gymnasium
import numpy as np

class Limited(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (3,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, limit):
        self._limit = limit

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._played = 0
        return np.zeros(3, np.float32), {}

    def step(self, action):
        self._played += 1
        return np.zeros(3, np.float32), 1.0, False, self._played == self._limit, {}

for limit in (1, 5):
    gymnasium.register(f"Limited{limit}-v0", Limited, kwargs={"limit": limit})
"""
STEPS = 1500
RUNS = {
    "limit of 1": (1, "vtrace"),
    "synchronous, and resumed": (5, "vtrace", "--synchronous"),
    "rollouts": (1, "ppo", "--epochs=1", "--unroll_length=4"),
    "evaluation environments": (5, "r2d2", "--num_eval_envs=2", "--replay_buffer_min_size=10", "--burn_in=2"),
    "transitions": (5, "dqn", "--num_eval_envs=2", "--replay_buffer_min_size=10"),
    "inference devices": (5, "vtrace", "--num_logical_devices=3", "--inference_devices=CPU:1,CPU:2"),
    "actors that act": (1, "vtrace", "--inference=actor"),
    "learner hosts": (1, "vtrace", "--num_learners=2"),
}


@pytest.mark.parametrize(
    "name",
    mostly_long(
        list(RUNS),
        [
            *("limit of 1", "synchronous, and resumed", "rollouts", "transitions"),
            "actors that act",
            "learner hosts",
        ],
    ),
)
def test_agent_steps_are_those_of_the_episodes(house, name):
    """A whole run has counted the actions that its environments executed."""
    limit, agent, *flags = RUNS[name]
    (house.path / "limited.py").write_text(ENVIRONMENT)
    game = (f"--game=limited:Limited{limit}-v0", "--batch_size=4", f"--logdir={house.logdir}")
    for steps in (STEPS, 2 * STEPS) if "resumed" in name else (STEPS,):
        frames = f"--total_environment_frames={steps}"
        run = house.start("train", "gym", agent, "2", "2", *game, *flags, frames)
        assert run.end() == 0, run.output
        end = house.metrics()[-1]
        assert end["env_frames"] == end["agent_steps"] >= steps
        assert end["mean_episode_agent_steps"] == limit
        # Some episodes have not ended, or were reported too late to be counted. But if resets counted as
        # agent steps, there would be one more for each episode.
        assert abs(end["agent_steps"] - limit * end["episodes"]) < end["episodes"] / 2
