"""Random starts, with environments whose ends and failures are scripted."""

import numpy as np
import pytest
from gymnasium import spaces

from seed_rl.actor.group import EpisodeStatistics
from seed_rl.environments.actions import random_actions
from seed_rl.environments.base import EnvironmentConfig, Suite
from seed_rl.environments.failures import FailureConfig
from seed_rl.environments.singles import SingleEnvironments
from seed_rl.environments.suites import atari, catch, classic, dmlab
from tests.environments.odd import Odd, raises

MOST = 30
SEEDS = list(range(20))
BUSIEST = max(SEEDS, key=lambda seed: len(random_actions(Odd.action_space, seed, MOST)))


def make(length=1000, truncates=False, failing=None):
    """A batch and its environments, the one with the number `failing` with a fault."""
    made = []

    def make_env(config, seed):
        fault = {"step": raises(RuntimeError("the engine is gone"))} if len(made) == failing else {}
        made.append(Odd(length=length, truncates=truncates, **fault))
        return made[-1]

    suite = Suite(EnvironmentConfig, make_env)
    return SingleEnvironments(suite, EnvironmentConfig(), SEEDS, FailureConfig(env_step_timeout_secs=0)), made


def played(made):
    return [len(env.actions) for env in made]


def test_each_environment_takes_a_random_number_of_random_actions():
    batch, made = make()
    output = batch.reset(SEEDS, MOST)
    counts = played(made)
    assert min(counts) < 5 and max(counts) > 25 and max(counts) <= MOST and len(set(counts)) > 10
    np.testing.assert_array_equal(output.observation[:, 0], counts)
    assert output.done.all() and not output.truncated.any() and not output.reward.any()
    assert {action for env in made for action in env.actions} == {0, 1}
    (again, made_again), (other, made_other) = make(), make()
    again.reset(SEEDS, MOST)
    other.reset([seed + 100 for seed in SEEDS], MOST)
    assert [env.actions for env in made] == [env.actions for env in made_again]  # The seed alone decides.
    assert played(made) != played(made_other)
    with pytest.raises(ValueError, match=r"^Random starts need a seed per environment"):
        batch.reset(None, MOST)


@pytest.mark.parametrize("truncates", [False, True])
def test_only_the_episode_with_random_actions_is_void(truncates):
    length = 8
    batch, made = make(length, truncates)
    output = batch.reset(SEEDS, MOST)
    before = output.observation[:, 0].astype(int).tolist()
    assert any(count > length for count in played(made))  # Episodes have ended on the way.
    assert [count % length for count in played(made)] == before
    assert output.done.all() and not output.truncated.any() and not output.reward.any()
    statistics, episodes = EpisodeStatistics(len(SEEDS)), []
    for _ in range(2 * (length + truncates)):
        episodes += statistics.update(*batch.step(np.zeros(len(SEEDS), np.int32)))
    assert {(e.episode_return, e.agent_steps) for e in episodes} == {(length, length)}
    for env, count in enumerate(before):
        # The last random action may have ended an episode: then the next one is whole, and counts.
        assert sum(e.env == env for e in episodes) == (1 if count else 2)


def test_an_environment_that_fails_is_replaced_by_one_without_random_actions(caplog):
    batch, made = make(length=8, failing=BUSIEST)
    output = batch.reset(SEEDS, MOST)
    assert played(made)[BUSIEST] == 3 and len(made) == len(SEEDS) + 1 and not made[-1].actions
    assert not output.observation[BUSIEST].any()
    assert output.done.all() and not output.truncated.any() and not output.reward.any()
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith(f"Environment {BUSIEST} failed in episode 1 at agent step 3: step() raised ")
    assert line.endswith("replacing it (1 of 3).")
    statistics, episodes = EpisodeStatistics(len(SEEDS)), []
    for _ in range(8):
        episodes += statistics.update(*batch.step(np.zeros(len(SEEDS), np.int32)))
    # It was begun by no random action.
    assert (BUSIEST, 8, 8) in [(e.env, e.episode_return, e.agent_steps) for e in episodes]


@pytest.mark.parametrize(
    "config", [atari.AtariConfig, catch.CatchConfig, classic.GymConfig, dmlab.DmlabConfig]
)
def test_evaluation_takes_none(config):
    assert config(random_start_steps=MOST).for_evaluation().random_start_steps == 0
    with pytest.raises(ValueError, match="--random_start_steps=-1 is too low; it must be at least 0"):
        config(random_start_steps=-1)


def test_random_actions_of_a_box_with_huge_bounds_are_those_of_one_without():
    huge = spaces.Box(np.array([-1.7e308, 100, -1]), np.array([1.7e308, 1e308, 1]), dtype=np.float64)
    unbounded = spaces.Box(np.array([-np.inf, 100, -1]), np.array([np.inf, np.inf, 1]), dtype=np.float64)
    drawn = random_actions(huge, BUSIEST, MOST)
    np.testing.assert_array_equal(drawn, random_actions(unbounded, BUSIEST, MOST))
    assert drawn and all(huge.contains(action) for action in drawn)
