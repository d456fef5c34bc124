"""EnvPool's environments, and those of Football and Atari that it plays, on the real library."""

import dataclasses
import os
import subprocess
import sys

import gymnasium
import numpy as np
import pytest

from seed_rl.environments import registry
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


# A game of each family, with the number of agent steps in which episodes end, and a setting that makes them.
FAMILIES = [
    ("CartPole-v1", "{}", 60),
    ("Pendulum-v1", '{"max_episode_steps": 9}', 40),
    ("MiniGrid-DoorKey-5x5-v0", '{"max_episode_steps": 20}', 50),
    ("BabyAI-GoToObj-v0", "{}", 70),
    ("CartpoleSwingup-v1", '{"max_episode_steps": 15}', 40),
    ("HalfCheetah-v5", '{"max_episode_steps": 15}', 40),
    ("MetaWorld/Reach-v3", '{"max_episode_steps": 15}', 40),
    ("Breakout-v5", "{}", 250),
    ("Basic-v1", "{}", 60),
    ("Jumanji/Game2048-v1", "{}", 300),
    ("Highway-v0", "{}", 40),
    ("BigfishEasy-v0", "{}", 200),
    ("MyoSuite/MyoHandAirplaneFixed-v0", "{}", 10),
]


@pytest.mark.parametrize(("game", "kwargs", "agent_steps"), FAMILIES, ids=[game for game, *_ in FAMILIES])
def test_a_pool_returns_what_single_environments_of_it_do(game, kwargs, agent_steps):
    config = EnvPoolConfig(game=game, env_kwargs=kwargs)
    try:
        batch = make_batch(SUITE, config, SEEDS)
    except ImportError as error:
        pytest.skip(str(error))
    for _, leaf in flatten_spec(batch.spec.observation):
        assert leaf.shape[:1] != (4,) or game != "Breakout-v5"  # Frames are single ones.
    pool, reported = played(batch, agent_steps, SEEDS)
    single, expected = played(SingleEnvironments(SUITE, config, SEEDS), agent_steps, SEEDS)
    np.testing.assert_equal(pool, single)
    assert reported == expected
    assert reported
    again, _ = played(
        make_batch(SUITE, dataclasses.replace(config, envpool_threads=2), SEEDS), agent_steps, SEEDS
    )
    np.testing.assert_equal(again, pool)


@pytest.mark.parametrize(("suite", "config"), [(football.SUITE, EMPTY_GOAL), (atari.SUITE, PONG)])
def test_engines_that_are_pools_return_what_single_environments_do(suite, config):
    pool, reported = played(make_batch(suite, config, SEEDS), 150, SEEDS)
    single, expected = played(SingleEnvironments(suite, config, SEEDS), 150, SEEDS)
    np.testing.assert_equal(pool, single)
    assert reported == expected


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


def test_success_is_a_figure_of_the_episode():
    config = EnvPoolConfig(game="MetaWorld/Reach-v3", env_kwargs='{"max_episode_steps": 5}')
    _, reported = played(make_batch(SUITE, config, SEEDS), 6, SEEDS)
    assert [set(figures) for *_, figures in reported] == [{"is_success"}] * 3


def test_action_masks_of_a_pool_are_bools():
    spec = suite_spec(SUITE, EnvPoolConfig(game="Jumanji/Game2048-v1"), 0)
    assert spec.observation["action_mask"].bits == (4,)


@pytest.mark.parametrize(
    ("suite", "settings", "sentence"),
    [
        (SUITE, {"game": "CoinrunEazy-v0"}, "is not an id of EnvPool; the nearest are: CoinrunEasy-v0"),
        (SUITE, {"game": "Go9x9-v1"}, "has 2 players, who act in turn; choose a game for one"),
        (SUITE, {"env_kwargs": '{"max_episode_step": 3}'}, "does not take .*are: max_episode_steps"),
        (SUITE, {"env_kwargs": '{"num_envs": 3}'}, "must not have 'num_envs': set --env_batch_size"),
        (SUITE, {"env_kwargs": '{"num_threads": 3}'}, "set --envpool_threads"),
        (SUITE, {"env_kwargs": "[]"}, "is not a JSON object"),
        (SUITE, {"num_action_repeats": 4}, "frame_skip"),
        (SUITE, {"random_start_steps": 4}, "needs single environments"),
        (atari.SUITE, {"terminal_on_life_loss": True}, "use --engine=ale-py"),
        (atari.SUITE, {"max_random_noops": 0}, "--max_random_noops=0 is not possible"),
        (atari.SUITE, {"halve_screen": True}, "use --engine=ale-py"),
        (atari.SUITE, {"game": "AirRaid"}, "cannot be played"),
        (atari.SUITE, {"game": "Pung"}, "Pong"),
        (football.SUITE, {"map_size": "120x90"}, "use --engine=gfootball"),
        (football.SUITE, {"rewards": "scoring,checkpoints"}, "use --engine=gfootball"),
        (football.SUITE, {"game": "academy_empty"}, "not a scenario of EnvPool; .*: academy_empty_goal"),
    ],
)
def test_settings_that_are_refused(suite, settings, sentence):
    engine = {} if suite is SUITE else {"engine": "envpool"}
    with pytest.raises(ValueError, match=sentence):
        suite_spec(suite, suite.config_class(**engine, **settings), 0)


def test_football_is_played_by_envpool_where_that_has_what_is_asked_for(monkeypatch):
    assert FootballConfig().engine == "envpool"
    assert FootballConfig(map_size="144x108").engine == "gfootball"
    assert FootballConfig(rewards="scoring,checkpoints").engine == "gfootball"
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert FootballConfig().engine == "gfootball"


@pytest.mark.parametrize("name", ["envpool", "football", "atari"])
def test_without_envpool_a_sentence_says_what_installs_it(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "envpool", None)
    suite = registry.suite(name)
    config = suite.config_class(**({} if name == "envpool" else {"engine": "envpool"}))
    with pytest.raises(ImportError, match=r"EnvPool cannot be imported .*seed_rl\[envpool\]"):
        suite_spec(suite, config, 0)


def test_pictures_of_football_and_atari_are_drawn():
    for suite, config, shape in (
        (football.SUITE, EMPTY_GOAL, (432, 576, 3)),
        (atari.SUITE, PONG, (210, 160, 3)),
    ):
        env = suite.make(config, 1, "rgb_array")
        env.reset(seed=1)
        assert env.render().shape == shape
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
