"""EnvPool's environments, and those of Football and Atari that it plays, on the real library."""

import dataclasses
import os
import subprocess
import sys

import gymnasium
import numpy as np
import pytest

from seed_rl.environments.making import make_batch, suite_spec
from seed_rl.environments.singles import SingleEnvironments
from seed_rl.environments.suites import atari, football
from seed_rl.environments.suites.atari import AtariConfig
from seed_rl.environments.suites.envpool import SUITE, EnvPoolConfig
from seed_rl.environments.suites.football import FootballConfig
from seed_rl.types import flatten_spec
from tests.environments.contract import played
from tests.waiting import DEADLINE_SECS

envpool = pytest.importorskip("envpool")

SEEDS = [11, 12, 13]
EMPTY_GOAL = FootballConfig(game="academy_empty_goal_close", engine="envpool")
PONG = AtariConfig(engine="envpool", max_random_noops=1)


def pool_of(game, max_episode_steps=None):
    kwargs = "{}" if max_episode_steps is None else f'{{"max_episode_steps": {max_episode_steps}}}'
    return SUITE, EnvPoolConfig(game=game, env_kwargs=kwargs)


# A game of each family, with the number of agent steps in which episodes end, and a setting that makes them.
GAMES = [
    (*pool_of("CartPole-v1"), 60),
    (*pool_of("Pendulum-v1", 9), 40),
    (*pool_of("MiniGrid-DoorKey-5x5-v0", 20), 50),
    (*pool_of("BabyAI-GoToObj-v0"), 70),
    (*pool_of("CartpoleSwingup-v1", 15), 40),
    (*pool_of("HalfCheetah-v5", 15), 40),
    (*pool_of("MetaWorld/Reach-v3", 15), 40),
    (*pool_of("Breakout-v5"), 250),
    (*pool_of("Basic-v1"), 60),
    (*pool_of("Jumanji/Game2048-v1"), 300),
    (*pool_of("Highway-v0"), 40),
    (*pool_of("BigfishEasy-v0"), 200),
    (*pool_of("MyoSuite/MyoHandAirplaneFixed-v0"), 10),
    (football.SUITE, EMPTY_GOAL, 150),
    (atari.SUITE, PONG, 150),
]


@pytest.mark.parametrize(("suite", "config", "agent_steps"), GAMES, ids=[game.game for _, game, _ in GAMES])
def test_a_pool_returns_what_single_environments_of_it_do(suite, config, agent_steps):
    try:
        batch = make_batch(suite, config, SEEDS)
    except ImportError as error:
        pytest.skip(str(error))
    for _, leaf in flatten_spec(batch.spec.observation):
        assert leaf.shape[:1] != (4,) or config.game != "Breakout-v5"  # Frames are single ones.
    pool = played(batch, agent_steps, SEEDS)
    np.testing.assert_equal(pool, played(SingleEnvironments(suite, config, SEEDS), agent_steps, SEEDS))
    assert pool[1] or suite is atari.SUITE  # Episodes have ended.
    again = make_batch(suite, dataclasses.replace(config, envpool_threads=2), SEEDS)
    np.testing.assert_equal(played(again, agent_steps, SEEDS), pool)


def test_vizdoom_starts_beside_threads_of_openblas(tmp_path):
    """EnvPool forks VizDoom's processes in several threads, and OpenBLAS's handlers of that may hang then."""
    code = """
import numpy as np
from scipy.linalg.blas import dgemm  # MinAtar needs SciPy, whose OpenBLAS hangs almost every time.
from seed_rl.environments.suites.envpool import EnvPoolConfig, make_vector
pool, matrix = make_vector(EnvPoolConfig(game="Basic-v1"), [0, 1, 2]), np.ones((1000, 1000))
for first in range(1, 9):
    dgemm(1.0, matrix, matrix)  # Starts OpenBLAS's threads.
    pool.reset(seed=[first, first + 1, first + 2])
"""
    variables = {**os.environ, "OPENBLAS_NUM_THREADS": "4"}
    subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=variables, check=True, timeout=DEADLINE_SECS
    )


def test_success_is_a_figure_of_the_episode_and_action_masks_are_bools():
    _, reported = played(make_batch(*pool_of("MetaWorld/Reach-v3", 5), SEEDS), 6, SEEDS)
    assert [set(figures) for *_, figures in reported] == [{"is_success"}] * 3
    spec = suite_spec(*pool_of("Jumanji/Game2048-v1"), 0)
    assert spec.observation["action_mask"].bits == (4,)


def test_football_is_played_by_envpool_where_that_has_what_is_asked_for(monkeypatch):
    assert FootballConfig().engine == "envpool"
    for settings in ({"map_size": "144x108"}, {"rewards": "scoring,checkpoints"}):
        assert FootballConfig(**settings).engine == "gfootball"
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert FootballConfig().engine == "gfootball"


def test_pictures_of_football_and_atari_are_drawn():
    for suite, config, shape in ((football.SUITE, EMPTY_GOAL, (432, 576)), (atari.SUITE, PONG, (210, 160))):
        env = suite.make(config, 1, "rgb_array")
        env.reset(seed=1)
        assert env.render().shape == (*shape, 3)
        env.close()


def test_atari_shows_the_frames_of_ale_py():
    """After one no-op, which both play, since their random numbers differ."""
    ours = AtariConfig(max_random_noops=1)
    actions = np.random.default_rng(0).integers(18, size=(200, 1)).astype(np.int32)
    batches = [make_batch(atari.SUITE, config, [5]) for config in (ours, PONG)]
    outputs = [batch.reset([5]) for batch in batches]
    for action in actions:
        np.testing.assert_array_equal(outputs[0].observation, outputs[1].observation)
        np.testing.assert_array_equal(outputs[0].reward, outputs[1].reward)
        outputs = [batch.step(action)[0] for batch in batches]


@pytest.mark.football
@pytest.mark.parametrize(
    "game", ["academy_empty_goal_close", "academy_3_vs_1_with_keeper", "11_vs_11_stochastic"]
)
def test_football_equals_the_original_engine(game):
    """With its seed, which EnvPool reports, and the same order in which the teams are processed."""
    pytest.importorskip("gfootball")
    pool = envpool.make(f"gfootball/{game}-v1", env_type="gymnasium", num_envs=1, seed=[5])
    planes, info = pool.reset()
    env = football._engine().create_environment(
        game,
        representation="extracted",
        channel_dimensions=(96, 72),
        other_config_options={
            "game_engine_random_seed": int(info["engine_seed"][0]),
            "reverse_team_processing": True,
        },
    )
    expected = env.reset()
    for action in np.random.default_rng(0).integers(19, size=200):
        np.testing.assert_array_equal(planes[0], expected)
        planes, reward, terminated, truncated, _ = pool.step(np.array([action]))
        expected, expected_reward, done, _ = env.step(int(action))
        assert (reward[0], bool(terminated[0] | truncated[0])) == (expected_reward, done)
        if done:
            break
    env.close()


def test_evaluation_plays_the_same_engine():
    assert isinstance(SUITE.make(EnvPoolConfig(), 0), gymnasium.Env)
    assert EMPTY_GOAL.for_evaluation() == EMPTY_GOAL
    assert PONG.for_evaluation().engine == "envpool"
