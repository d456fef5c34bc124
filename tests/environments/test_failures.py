"""What an agent sees when an environment fails, and how often one may; `test_odd` has how they fail."""

import re

import numpy as np
import pytest

from seed_rl.environments.base import EnvironmentConfig, Suite
from seed_rl.environments.failures import EnvironmentFailedError, FailureConfig
from seed_rl.environments.singles import SingleEnvironments
from tests.environments.odd import LENGTH, WHEN, Odd, raises

GONE = raises(RuntimeError("the engine is gone"))
FIRST_ENV = 10


def make(*kinds, max_failures=3):
    """A batch of two environments that was reset, and all that are made; those after `kinds` are honest."""
    made = []

    def make_env(config, seed):
        made.append(Odd(**(kinds[len(made)] if len(made) < len(kinds) else {})))
        return made[-1]

    tolerance = FailureConfig(max_environment_failures=max_failures, env_step_timeout_secs=0)
    suite = Suite(EnvironmentConfig, make_env)
    batch = SingleEnvironments(suite, EnvironmentConfig(), [0, 1], tolerance, FIRST_ENV)
    batch.reset()
    return batch, made


def play(batch, agent_steps):
    """(observation, reward, done, truncated) of environment 0 over time."""
    trace = []
    for _ in range(agent_steps):
        env, _ = batch.step(np.zeros(2, np.int32))
        assert not (env.done & env.truncated).any()
        trace.append((env.observation[0, 0], env.reward[0], env.done[0], env.truncated[0]))
    return trace


def test_a_failed_step_voids_the_episode_and_another_environment_goes_on():
    closed = []
    batch, made = make({"step": GONE, "close": closed.append})
    assert play(batch, WHEN + 1 + LENGTH) == [
        (1, 1, False, False),
        (2, 1, False, False),
        (2, 0, False, True),  # The last good observation again.
        (0, 0, True, False),  # Another environment.
        (1, 1, False, False),
        (2, 1, False, False),
        (3, 1, False, False),
        (4, 1, False, False),
        (0, 1, True, False),
    ]
    assert (len(made), len(closed)) == (3, 1)


def test_a_failed_reset_keeps_the_reward_of_the_episode_before():
    batch, made = make()
    made[0].replaced["reset"] = GONE
    assert play(batch, LENGTH)[-1] == (0, 1, True, False)
    assert len(made) == 3


def test_one_failure_too_many_names_environment_episode_and_step():
    batch, _ = make({}, {"step": GONE}, max_failures=0)
    sentence = (
        f"Environment {FIRST_ENV + 1} failed in episode 1 at agent step {WHEN}: step() raised RuntimeError: "
        "the engine is gone; this was failure 1 without a finished episode: "
    )
    with pytest.raises(EnvironmentFailedError, match=f"^{re.escape(sentence)}.*--max_environment_failures"):
        play(batch, WHEN)


def test_an_episode_that_ends_forgives():
    batch, made = make({"step": GONE}, max_failures=1)
    play(batch, WHEN + 1 + LENGTH)  # A failure, then a whole episode.
    made[2].replaced["step"] = GONE
    play(batch, WHEN + 1)
    assert len(made) == 4
