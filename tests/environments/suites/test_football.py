"""Google Research Football, on the real engine."""

import gymnasium
import numpy as np
import pytest

from seed_rl.environments.base import Info
from seed_rl.environments.making import make_batch
from seed_rl.environments.suites.football import SUITE, FootballConfig
from tests.environments.contract import fulfils

gfootball = pytest.importorskip("gfootball")
pytestmark = pytest.mark.football

EMPTY_GOAL = FootballConfig(engine="gfootball", game="academy_empty_goal_close")
RIGHT, SHOT = 5, 12


TestEmptyGoal = fulfils(SUITE, EMPTY_GOAL, agent_steps=120)
TestLargeMatchWithCheckpoints = pytest.mark.slow(
    fulfils(
        SUITE,
        FootballConfig(
            engine="gfootball", map_size="144x108", rewards="scoring,checkpoints", num_action_repeats=2
        ),
        agent_steps=20,
        episodes_end=False,
    )
)


@pytest.mark.parametrize(
    ("map_size", "shape"), [("96x72", (72, 96, 4)), ("120x90", (90, 120, 4)), ("144x108", (108, 144, 4))]
)
def test_planes_show_both_teams_the_ball_and_the_player(map_size, shape):
    env = SUITE.make(FootballConfig(engine="gfootball", map_size=map_size), 0)
    assert env.observation_space == gymnasium.spaces.Box(0, 1, shape, np.bool_)
    assert env.action_space.n == 19
    planes, _ = env.reset()
    left, right, ball, active = planes.sum((0, 1))
    assert 1 < left <= 11  # players who stand in one point count once
    assert 1 < right <= 11
    assert ball == active == 1
    assert (planes[..., 0] & planes[..., 3]).sum() == 1
    assert env.render().shape == (shape[0] * 6, shape[1] * 6, 3)
    env.close()


@pytest.mark.parametrize("rewards", ["scoring", "scoring,checkpoints"])
def test_a_goal_is_one_raw_reward_whatever_the_training_reward(rewards):
    env = SUITE.make(FootballConfig(engine="gfootball", game="academy_empty_goal_close", rewards=rewards), 0)
    planes, _ = env.reset()
    total = raw = 0.0
    terminated = False
    while not terminated:
        ball_column = np.argwhere(planes[..., 2])[0][1]
        planes, reward, terminated, truncated, info = env.step(SHOT if ball_column > 88 else RIGHT)
        assert not truncated
        total, raw = total + reward, raw + info[Info.RAW_REWARD]
    env.close()
    assert raw == 1
    assert total == pytest.approx(1.0 if rewards == "scoring" else 2.0)


def test_each_of_several_players_sees_itself_as_the_controlled_one():
    config = FootballConfig(engine="gfootball", game="academy_3_vs_1_with_keeper", players=3)
    batch = make_batch(SUITE, config, range(3))
    output = batch.reset(range(3))
    for _ in range(10):
        planes = np.unpackbits(output.observation, axis=-1).reshape(3, 72, 96, 4)
        np.testing.assert_array_equal(planes[..., :3], np.broadcast_to(planes[:1, ..., :3], (3, 72, 96, 3)))
        assert planes[..., 3].sum(axis=(1, 2)).tolist() == [1, 1, 1]
        assert len(np.unique(planes[..., 3].reshape(3, -1), axis=0)) == 3
        output, _ = batch.step(np.full(3, RIGHT, np.int32))
    batch.close()


def test_matches_of_one_environment_differ():
    env = SUITE.make(FootballConfig(engine="gfootball"), 0)
    first, second = ([env.reset()[0], *(env.step(RIGHT)[0] for _ in range(30))] for _ in range(2))
    assert not np.array_equal(first, second)
    env.close()
