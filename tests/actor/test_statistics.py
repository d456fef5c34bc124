"""Reported episodes."""

import numpy as np

from seed_rl.actor.statistics import Episode, EpisodeStatistics
from seed_rl.environments.base import Info
from seed_rl.types import EnvOutput


def _output(reward, done=None, truncated=None):
    nothing = [False] * len(reward)
    return EnvOutput(
        np.array(reward, np.float32),
        np.array(nothing if done is None else done),
        np.array(nothing if truncated is None else truncated),
        np.zeros((len(reward), 3)),
    )


def test_each_environment_counts_for_itself():
    statistics = EpisodeStatistics(2)
    assert statistics.update(_output([1, 10]), [{}, {}]) == []
    assert statistics.update(_output([2, 20], done=[True, False]), [{}, {}]) == [Episode(0, 3.0, 2)]
    assert statistics.update(_output([4, 40], done=[True, True]), [{}, {}]) == [
        Episode(0, 4.0, 1),
        Episode(1, 70.0, 3),
    ]


def test_a_truncated_episode_counts_once_and_its_reset_is_no_agent_step():
    statistics = EpisodeStatistics(1)
    assert statistics.update(_output([1]), [{}]) == []
    assert statistics.update(_output([2], truncated=[True]), [{}]) == [Episode(0, 3.0, 2)]
    assert statistics.update(_output([0], done=[True]), [{}]) == []
    assert statistics.update(_output([5], done=[True]), [{}]) == [Episode(0, 5.0, 1)]


def test_raw_rewards_replace_rewards():
    statistics = EpisodeStatistics(1)
    statistics.update(_output([1]), [{Info.RAW_REWARD: 7.5}])
    statistics.update(_output([1]), [{Info.RAW_REWARD: 0}])
    assert statistics.update(_output([1], done=[True]), [{}]) == [Episode(0, 8.5, 3)]


def test_an_episode_that_continues_is_reported_at_its_real_end():
    statistics = EpisodeStatistics(1)
    goes_on = {Info.EPISODE_CONTINUES: True}
    assert statistics.update(_output([1], done=[True]), [goes_on]) == []
    assert statistics.update(_output([2], truncated=[True]), [goes_on]) == []
    assert statistics.update(_output([0], done=[True]), [{}]) == []  # the reset
    assert statistics.update(_output([4], done=[True]), [{Info.EPISODE_CONTINUES: False}]) == [
        Episode(0, 7.0, 3)
    ]


def test_long_returns_are_not_rounded():
    """float32 would lose ones above 2**24."""
    statistics = EpisodeStatistics(1)
    statistics.update(_output([2**24]), [{}])
    statistics.update(_output([1]), [{}])
    assert statistics.update(_output([1], done=[True]), [{}]) == [Episode(0, 2.0**24 + 2, 3)]
