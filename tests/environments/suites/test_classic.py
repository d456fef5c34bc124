"""Gymnasium environments by id."""

import importlib.util

import gymnasium
import numpy as np
import pytest

from seed_rl.environments.base import Info
from seed_rl.environments.observations import hash_words
from seed_rl.environments.singles import SingleEnvironments
from seed_rl.environments.suites.classic import SUITE, GymConfig, make
from tests.environments.contract import EnvironmentContract, fulfils

LIMITED = "tests.environments.limited:Limited"
FIVE = '{"length": 5, "terminates": true}'

TestCartPole = fulfils(SUITE, GymConfig(game="CartPole-v1"))
TestPendulum = fulfils(SUITE, GymConfig(game="Pendulum-v1", num_action_repeats=2))
TestDict = fulfils(SUITE, GymConfig(game=f"{LIMITED}-v0", env_kwargs=FIVE))
# Tuple of Discrete observations.
TestTextGame = fulfils(SUITE, GymConfig(game="Blackjack-v1"))
# Vectors in, continuous actions out. Only its time limit, here a short one, ends an episode.
TestMuJoCo = pytest.mark.skipif(importlib.util.find_spec("mujoco") is None, reason="no MuJoCo")(
    fulfils(SUITE, GymConfig(game="HalfCheetah-v5", max_episode_frames=100))
)


@pytest.mark.skipif(importlib.util.find_spec("minigrid") is None, reason="no MiniGrid")
class TestMiniGrid(EnvironmentContract):
    suite, config = SUITE, GymConfig(game="minigrid:MiniGrid-DoorKey-5x5-v0", max_episode_frames=50)

    def test_the_mission_goes_as_words(self, make_batch):
        mission = make_batch([0]).reset().observation["mission"]
        np.testing.assert_array_equal(
            mission, [hash_words("use the key to open the door and then get to the goal")]
        )


def test_the_module_before_the_id_is_imported_and_the_constructor_gets_its_arguments():
    env = make(GymConfig(game="tests.environments.hallway:Hallway-v0", env_kwargs='{"size": 7}'), seed=0)
    assert env.spec.id == "Hallway-v0" and env.observation_space.high.tolist() == [7]


def test_equal_arguments_are_equal_however_they_are_written():
    assert GymConfig(env_kwargs='{"b":1,"a": [2]}') == GymConfig(env_kwargs=' {"a":[2], "b" : 1}')


@pytest.mark.parametrize(
    ("game", "repeats", "limit", "rows"),
    [
        ("-v0", 3, None, [(3, 1 + 2 + 3, False, False), (5, 4 + 5, True, False)]),
        ("To4-v0", 3, None, [(3, 1 + 2 + 3, False, False), (4, 4, False, True)]),
        ("To4-v0", 2, 3, [(2, 1 + 2, False, False), (3, 3, False, True)]),
    ],
)
def test_repeats_sum_rewards_and_stop_at_ends_and_limits_count_environment_frames(game, repeats, limit, rows):
    settings = {"num_action_repeats": repeats, "max_episode_frames": limit}
    env = make(GymConfig(game=LIMITED + game, env_kwargs=FIVE, **settings), seed=0)
    env.reset()
    for row in rows:
        observation, *others, _ = env.step(np.array([0, 0]))
        assert (observation["episode"][1], *others) == row


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        ("run `pip install engine`", r"^--game=Pendulum-v1 needs .*pip install engine"),
        ('MuJoCo is not installed, run `pip install "gymnasium[mujoco]"`', r"-m pip install .*\[mujoco\]'"),
        ("Box2D is not installed, you can install it by run `pip install swig`", r" install .*\[box2d\]'"),
        ("No module named 'minigrid'", r"-m pip install .*\[minigrid\]'"),
    ],
)
def test_a_missing_engine_is_named_with_the_command_that_installs_it(monkeypatch, problem, words):
    def missing(**_):
        raise gymnasium.error.DependencyNotInstalled(problem)

    monkeypatch.setattr(gymnasium.registry["Pendulum-v1"], "entry_point", missing)
    with pytest.raises(ImportError, match=words):
        make(GymConfig(game="Pendulum-v1"), seed=0)


STAGGERED = GymConfig(game="Pendulum-v1", max_episode_frames=50, staggered_start=True)


TestStaggered = fulfils(SUITE, STAGGERED)


def ends(batch, agent_steps):
    """By environment, the agent steps at which an episode was cut, and whether it was void."""
    found = [[] for _ in range(batch.num_envs)]
    for step in range(agent_steps):
        output, infos = batch.step(np.zeros((batch.num_envs, 1), np.float32))
        for env, info in enumerate(infos):
            if output.truncated[env]:
                found[env].append((step, info.get(Info.EPISODE_IS_VOID, False)))
    return found


def test_first_episodes_end_apart_and_are_void_and_all_others_are_whole():
    batch = SingleEnvironments(SUITE, STAGGERED, list(range(20)))
    batch.reset()
    found = ends(batch, 160)
    firsts = [episodes[0][0] for episodes in found]
    assert len(set(firsts)) > 10 and max(firsts) < 49
    for (first, is_void), *others in found:
        assert is_void
        assert [(step, False) for step in range(first + 51, 160, 51)] == others


def test_a_seed_makes_an_episode_the_first_again_and_evaluation_plays_whole_ones():
    batch = SingleEnvironments(SUITE, STAGGERED, [3, 4])
    batch.reset()
    first = ends(batch, 120)
    batch.reset([3, 4])
    assert ends(batch, 120) == first
    batch = SingleEnvironments(SUITE, STAGGERED.for_evaluation(), [0])
    batch.reset()
    assert ends(batch, 51) == [[(49, False)]]
