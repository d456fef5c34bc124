"""Environments with unusual spaces, through a launcher, a learner and an actor."""

import pytest

pytestmark = pytest.mark.slow

ENVIRONMENT = """
import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete

INF = np.inf
VECTOR = Box(-1, 1, (3,))

class Payer(gymnasium.Env):
    def __init__(self, observations=VECTOR, actions=Discrete(2), unit=1.0):
        self.observation_space, self.action_space, self.unit = observations, actions, unit

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        self.time += 1
        reward = float(np.reshape(action, -1)[0]) / self.unit
        return self.observation_space.sample(), reward, self.time == 5, False, {}

def register(name, **kwargs):
    gymnasium.register(name + "-v0", Payer, kwargs=kwargs)

register("Mixed", actions=Box(np.array([100, -INF]), np.array([500, INF]), dtype=np.float64), unit=100)
register("Half", actions=Box(np.array([100, 7]), np.array([INF, 7]), dtype=np.float64), unit=101)
register("First", observations=Box(0, 255, (4, 40, 40), np.uint8))
register("Empty", observations=Dict(a=Box(0, 1, (0,)), b=VECTOR, c=MultiDiscrete([])))
"""


def play(house, game, agent="vtrace", *args):
    (house.path / "odd.py").write_text(ENVIRONMENT)
    run = house.start(
        *("train", "gym", agent, "1", "4", f"--game=odd:{game}-v0", f"--logdir={house.logdir}"),
        *("--total_environment_frames=2000", "--log_period_secs=0.25", "--intra_op_threads=1", *args),
    )
    return run, run.end()


@pytest.mark.parametrize(("game", "at_least", "at_most"), [("Mixed", 14, 16), ("Half", 4.9, 5.1)])
def test_a_new_policy_is_in_the_middle_of_the_bounds_that_there_are(house, game, at_least, at_most):
    """Mixed pays 1 to 5 and Half 1 for each of 5 steps in the middle; hardly anything is learned."""
    run, exit_code = play(house, game, "vtrace", "--batch_size=4", "--learning_rate=1e-9")
    assert exit_code == 0, run.output
    assert at_least < house.metrics()[-1]["mean_return"] < at_most


@pytest.mark.parametrize("game", ["First", "Empty"])
@pytest.mark.parametrize("agent", ["vtrace", "dqn"])
def test_observations_that_agents_train_on(house, game, agent):
    replay = (
        "--replay_buffer_size=500",
        "--replay_buffer_min_size=100",
        "--num_eval_envs=0",
        "--replay_ratio=4",
    )
    run, exit_code = play(house, game, agent, "--batch_size=4", *(replay if agent == "dqn" else ()))
    assert exit_code == 0, run.output
    assert "replacing it" not in (house.logdir / "actor_0.log").read_text()
