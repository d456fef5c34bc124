"""A group's environments before its first step is sent, and its episodes."""

import numpy as np
import pytest

from seed_rl.actor.actor_config import ActorConfig
from seed_rl.actor.group import EpisodeStatistics, Group
from seed_rl.environments.base import EnvironmentConfig, Info, Suite
from seed_rl.environments.failures import FailureConfig
from seed_rl.environments.singles import SingleEnvironments
from seed_rl.environments.suites.catch import SUITE, CatchConfig
from seed_rl.metrics.episodes import FAILURES
from seed_rl.types import EnvOutput
from seed_rl.wire.codec import StepCodec
from seed_rl.wire.generated import inference_pb2 as pb
from tests.environments.odd import LENGTH, Odd, raises

SEEDS = list(range(8))
CATCH = CatchConfig(rows=100)


@pytest.fixture
def make():
    """Makes groups of eight environments of Catch: (group, views of its records)."""
    made = []

    def make_one(random_start_steps=0):
        group = Group(SingleEnvironments(SUITE, CATCH, SEEDS), SEEDS, random_start_steps)
        made.append(group)
        steps = StepCodec(group.environment.spec)
        records = np.zeros(8 * steps.record_bytes, np.uint8)
        group.write_to(records)
        return group, steps.decode(records)

    yield make_one
    for group in made:
        group.environment.close()


def rows(output):
    """The row of the ball: how many agent steps an environment has taken in its episode."""
    return np.argmax(output.observation.max(axis=2), axis=1).tolist()


def test_environments_start_together_unless_their_start_is_random(make):
    for random_start_steps in (0, 50):
        _, output = make(random_start_steps)
        assert output.done.all() and not output.reward.any() and not output.truncated.any()
        assert len(set(rows(output))) > 3 if random_start_steps else rows(output) == [0] * 8
        assert max(rows(output)) <= random_start_steps


def test_a_step_is_written_where_the_group_was_told_last(make):
    group, first = make()
    second = StepCodec(group.environment.spec)
    records = np.full(8 * second.record_bytes, 255, np.uint8)
    group.write_to(records)
    assert rows(second.decode(records)) == [0] * 8
    group.step(np.ones(8, np.int32))
    assert (rows(first), rows(second.decode(records)), group.applied) == ([0] * 8, [1] * 8, 1)


def test_the_episode_of_a_random_start_is_not_reported(make):
    plain, decorrelated = (
        [episode for _ in range(2 * 99) for episode in group.step(np.ones(8, np.int32))]
        for group, _ in (make(), make(50))
    )
    assert (len(plain), len(decorrelated)) == (2 * 8, 8)
    assert {episode.agent_steps for episode in decorrelated} == {99}
    assert {episode.env for episode in decorrelated} == set(range(8))


def test_groups_must_have_equal_sizes():
    with pytest.raises(ValueError, match="cannot be split into --num_env_groups=3 equal groups"):
        ActorConfig(env_batch_size=8, num_env_groups=3)


def _episode(env, episode_return, agent_steps):
    return pb.Episode(env=env, episode_return=episode_return, agent_steps=agent_steps)


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
    assert statistics.update(_output([2, 20], done=[True, False]), [{}, {}]) == [_episode(0, 3.0, 2)]
    assert statistics.update(_output([4, 40], done=[True, True]), [{}, {}]) == [
        _episode(0, 4.0, 1),
        _episode(1, 70.0, 3),
    ]


def test_a_truncated_episode_counts_once_and_its_reset_is_no_agent_step():
    statistics = EpisodeStatistics(1)
    assert statistics.update(_output([1]), [{}]) == []
    assert statistics.update(_output([2], truncated=[True]), [{}]) == [_episode(0, 3.0, 2)]
    assert statistics.update(_output([0], done=[True]), [{}]) == []
    assert statistics.update(_output([5], done=[True]), [{}]) == [_episode(0, 5.0, 1)]


def test_raw_rewards_replace_rewards():
    statistics = EpisodeStatistics(1)
    statistics.update(_output([1]), [{Info.RAW_REWARD: 7.5}])
    statistics.update(_output([1]), [{Info.RAW_REWARD: 0}])
    assert statistics.update(_output([1], done=[True]), [{}]) == [_episode(0, 8.5, 3)]


def test_an_episode_that_continues_is_reported_at_its_real_end():
    statistics = EpisodeStatistics(1)
    goes_on = {Info.EPISODE_CONTINUES: True}
    assert statistics.update(_output([1], done=[True]), [goes_on]) == []
    assert statistics.update(_output([2], truncated=[True]), [goes_on]) == []
    assert statistics.update(_output([0], done=[True]), [{}]) == []  # the reset
    assert statistics.update(_output([4], done=[True]), [{Info.EPISODE_CONTINUES: False}]) == [
        _episode(0, 7.0, 3)
    ]


def test_an_episode_has_the_own_figures_of_its_last_step():
    statistics = EpisodeStatistics(2)
    statistics.update(_output([1, 1]), [{"is_success": True}, {"metrics": {"wins": 9}}])
    ended = _output([1, 1], done=[True, False], truncated=[False, True])
    first, second = statistics.update(ended, [{"is_success": False}, {"metrics": {"wins": 2}}])
    assert (dict(first.figures), dict(second.figures)) == ({"is_success": 0.0}, {"wins": 2.0})


def test_long_returns_are_not_rounded():
    """float32 would lose ones above 2**24."""
    statistics = EpisodeStatistics(1)
    statistics.update(_output([2**24]), [{}])
    statistics.update(_output([1]), [{}])
    assert statistics.update(_output([1], done=[True]), [{}]) == [_episode(0, 2.0**24 + 2, 3)]


class FailsOnce(Odd):
    """Two environments; the first fails once in agent step 3."""

    def __init__(self):
        super().__init__(**({"step": raises(OSError("no device"))} if not made else {}))
        made.append(self)


made: list[Odd] = []


def test_failures_are_reported_once_with_the_next_episode_that_ends():
    made.clear()
    suite, tolerance = Suite(EnvironmentConfig, lambda config, seed: FailsOnce()), FailureConfig()
    environment = SingleEnvironments(suite, EnvironmentConfig(), [0, 1], tolerance)
    group, reported = Group(environment, [0, 1]), []
    for _ in range(3 * LENGTH):
        reported += [dict(episode.figures) for episode in group.step(np.zeros(2, np.int32))]
    assert reported == [{FAILURES: 1}, *[{}] * (len(reported) - 1)] and len(reported) > 3
    assert environment.failures == 1
