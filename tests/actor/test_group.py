"""A group's environments before its first step is sent."""

import numpy as np

from seed_rl.actor.config import ActorConfig
from seed_rl.actor.group import Group
from seed_rl.actor.loop import Actor
from seed_rl.environments.batched import make_batched
from seed_rl.environments.suites.catch import SUITE, CatchConfig

SEEDS = list(range(8))
CATCH = CatchConfig(rows=100)


def groups(config, **settings):
    actor = Actor(ActorConfig(env_batch_size=8, **settings), "catch", SUITE, config)
    found = [group._message.output for group in actor._groups]
    actor.close()
    return found


def rows(output):
    """The row of the ball: how many agent steps an environment has taken in its episode."""
    return np.argmax(output.observation.max(axis=2), axis=1)


def test_a_random_start_is_in_the_first_step_of_every_group():
    first, second = groups(CatchConfig(rows=100, random_start_steps=50), num_env_groups=2)
    taken = [*rows(first).tolist(), *rows(second).tolist()]
    assert len(set(taken)) > 4 and max(taken) <= 50
    for output in (first, second):
        assert output.done.all() and not output.reward.any() and not output.truncated.any()


def test_environments_start_together_without_it():
    (output,) = groups(CATCH)
    assert rows(output).tolist() == [0] * 8


def test_the_episode_of_a_random_start_is_not_reported():
    reported = []
    for random_start_steps in (0, 50):
        group = Group(make_batched(SUITE, CATCH, SEEDS), 4, SEEDS, random_start_steps)
        reported.append([])
        for _ in range(2 * 99):
            reported[-1] += group._step(np.ones(len(SEEDS), np.int32))
        group.environment.close()
    plain, decorrelated = reported
    assert len(plain) == 2 * 8
    assert {episode.agent_steps for episode in decorrelated} == {99}
    assert {episode.env for episode in decorrelated} == set(range(4, 12))
    assert len(decorrelated) == 8
