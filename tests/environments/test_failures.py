import logging

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from seed_rl.actor.group import EpisodeStatistics
from seed_rl.environments.base import EnvironmentConfig, Suite
from seed_rl.environments.batched import BatchedEnvironment
from seed_rl.environments.failures import EnvironmentFailedError, FailureConfig

LENGTH = 4


class Fragile(gymnasium.Env):
    """Episodes of four agent steps; observes how many it has played and which environment it is.

    `faults` says where it raises: {(number of the environment, step or "reset")}.
    """

    observation_space = spaces.Box(-1e3, 1e3, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, number, faults):
        self.number, self.faults, self.played, self.closed = number, faults, 0, False

    def reset(self, *, seed=None, options=None):
        self.played = 0
        self._fail("reset")
        return self._observation(), {}

    def step(self, action):
        self.played += 1
        self._fail(self.played)
        return self._observation(), 1.0, self.played == LENGTH, False, {}

    def close(self):
        self.closed = True

    def _observation(self):
        return np.array([self.played, self.number], np.float32)

    def _fail(self, when):
        if (self.number, when) in self.faults:
            raise RuntimeError("the engine is gone")


@pytest.fixture
def make():
    made = []

    def make_batch(faults, max_failures=3):
        made.clear()

        def make_env(config, seed, render_mode=None):
            made.append(Fragile(len(made), faults))
            return made[-1]

        suite = Suite(EnvironmentConfig, make_env)
        tolerance = FailureConfig(max_environment_failures=max_failures, env_step_timeout_secs=0)
        batch = BatchedEnvironment(suite, EnvironmentConfig(), [0, 1], tolerance, first_env=10)
        batch.made = made
        return batch

    return make_batch


def play(batch, agent_steps):
    """(observation, reward, done, truncated) of environment 0 over time, and all episodes."""
    statistics = EpisodeStatistics(2)
    env = batch.reset()
    trace = [(*env.observation[0].tolist(), float(env.reward[0]), bool(env.done[0]), bool(env.truncated[0]))]
    episodes = []
    for _ in range(agent_steps):
        env, infos = batch.step(np.zeros(2, np.int32))
        episodes += statistics.update(env, infos)
        assert not (env.done & env.truncated).any()
        assert np.isfinite(env.observation).all() and np.isfinite(env.reward).all()
        trace.append(
            (*env.observation[0].tolist(), float(env.reward[0]), bool(env.done[0]), bool(env.truncated[0]))
        )
    return trace, episodes


def test_a_failed_step_voids_the_episode_and_another_environment_goes_on(make, caplog):
    batch = make({(0, 3)})
    with caplog.at_level(logging.WARNING):
        trace, episodes = play(batch, 8)
    assert trace[:4] == [
        (0, 0, 0, True, False),
        (1, 0, 1, False, False),
        (2, 0, 1, False, False),
        (2, 0, 0, False, True),  # The last good observation again.
    ]
    assert trace[4:] == [
        (0, 2, 0, True, False),  # Another environment.
        (1, 2, 1, False, False),
        (2, 2, 1, False, False),
        (3, 2, 1, False, False),
        (0, 2, 1, True, False),
    ]
    assert [(e.env, e.episode_return, e.agent_steps) for e in episodes] == [(1, 4, 4), (0, 4, 4), (1, 4, 4)]
    assert batch.made[0].closed
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("Environment 10 failed in episode 1 at agent step 3: step() ")
    assert line.endswith("replacing it (1 of 3).")


def test_a_failed_reset_keeps_the_reward_of_the_episode_before(make):
    faults = set()
    batch = make(faults)
    env = batch.reset()
    faults.add((0, "reset"))
    for _ in range(LENGTH):
        env, _ = batch.step(np.zeros(2, np.int32))
    assert (env.reward[0], env.done[0], env.observation[0].tolist()) == (1.0, True, [0.0, 2.0])


def test_too_many_failures_name_environment_episode_and_step(make):
    batch = make({(number, 2) for number in range(10)}, max_failures=2)
    sentence = (
        r"^Environment 11 failed in episode 1 at agent step 2: step\(\) raised RuntimeError: the engine"
    )
    with pytest.raises(EnvironmentFailedError, match=sentence) as caught:
        play(make({(number, 2) for number in (1, 2, 3, 4)}, max_failures=0), 3)
    assert "--max_environment_failures" in str(caught.value)
    with pytest.raises(EnvironmentFailedError, match="failure 3 without a finished episode"):
        play(batch, 20)


def test_an_episode_that_ends_forgives(make):
    faults = {(0, 2)}
    batch = make(faults, max_failures=1)
    play(batch, 3 + LENGTH)  # A failure, then a whole episode.
    faults.add((2, 2))
    for _ in range(3):
        env, _ = batch.step(np.zeros(2, np.int32))
    assert env.observation[0].tolist() == [0, 3]
