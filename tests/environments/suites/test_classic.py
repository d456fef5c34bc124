"""Gymnasium environments by id."""

import importlib.util

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from seed_rl.environments.base import Info
from seed_rl.environments.observations import hash_words
from seed_rl.environments.singles import SingleEnvironments
from seed_rl.environments.suites.classic import SUITE, GymConfig, make
from tests.environments.contract import EnvironmentContract, fulfils


class DictEnv(gymnasium.Env):
    """Terminates at environment frame 5; the reward of frame n is n."""

    action_space = spaces.MultiDiscrete([2, 3], start=[0, 4])
    observation_space = spaces.Dict(
        noise=spaces.Box(-np.inf, np.inf, (2,), np.float64), frame=spaces.Discrete(6)
    )

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.frame = 0
        return self._observe(), {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.frame += 1
        return self._observe(), float(self.frame), self.frame == 5, False, {}

    def _observe(self):
        return {"noise": self.np_random.normal(size=2), "frame": self.frame}


@pytest.fixture(autouse=True)
def dict_env():
    gymnasium.register("SeedRlDict-v0", entry_point=DictEnv, max_episode_steps=4)
    gymnasium.register("SeedRlDictUnlimited-v0", entry_point=DictEnv)
    yield
    for name in ("SeedRlDict-v0", "SeedRlDictUnlimited-v0"):
        del gymnasium.registry[name]


TestCartPole = fulfils(SUITE, GymConfig(game="CartPole-v1"))
TestPendulum = fulfils(SUITE, GymConfig(game="Pendulum-v1", num_action_repeats=2))
TestDict = fulfils(SUITE, GymConfig(game="SeedRlDictUnlimited-v0"))
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


def _episode(**options):
    """[(frame, reward, terminated, truncated)] of one episode of DictEnv."""
    env = make(GymConfig(**options), seed=0)
    env.reset()
    rows = []
    while not rows or not any(rows[-1][2:]):
        observation, reward, terminated, truncated, _ = env.step(np.array([0, 4]))
        rows.append((observation["frame"], reward, terminated, truncated))
    return rows


# Settings, and text of the sentence.
REFUSED = {
    "no JSON": ({"env_kwargs": '{"size": 7'}, r"is not JSON \(Expecting ',' delimiter"),
    "empty": ({"env_kwargs": ""}, "is not JSON"),
    "nested": ({"env_kwargs": "[" * 5000}, "it is nested too deeply"),
    "a list": ({"env_kwargs": "[7]"}, "is not a JSON object; write it like"),
    "a number": ({"env_kwargs": "7"}, "is not a JSON object"),
    "a render mode": ({"env_kwargs": '{"render_mode": "human"}'}, "not have 'render_mode': seed_rl evaluate"),
    "a time limit": ({"env_kwargs": '{"max_episode_steps": 7}'}, "set --max_episode_frames"),
    "an id": ({"env_kwargs": '{"env_id": "os:x"}'}, "must not have 'env_id': set --game"),
    "unknown": (
        {"env_kwargs": '{"size": 7}'},
        "^--game=CartPole-v1 does not take the argument 'size' of --env_kwargs",
    ),
    "a near id": (
        {"game": "cartpol-v1"},
        r"^--game=cartpol-v1 is not a Gymnasium id; the nearest are: CartPole-v\d, .*\.$",
    ),
    "a version": ({"game": "CartPole-v77"}, r"is not a Gymnasium id; the nearest are: CartPole-v\d"),
    "no id": ({"game": "!"}, r"^--game=! is not a Gymnasium id; .* registers is MODULE:ID\.$"),
    "no id of a module": ({"game": "gymnasium:!"}, r"^--game=gymnasium:! is not a Gymnasium id\.$"),
    "a near id of a module": ({"game": "gymnasium:CartPol-v1"}, r"is not .* gymnasium:CartPole-v\d"),
    "MiniGrid": (
        {"game": "MiniGrid-Unheard-Of-v0"},
        "; write --game=minigrid:MiniGrid-Unheard-Of-v0",
    ),
    "no module": (
        {"game": "no_such_module:Thing-v0"},
        "names the module no_such_module, which is neither in the current directory",
    ),
    "no package": ({"game": "no_such.module:Thing-v0"}, "names the module no_such.module, which is neither"),
    "a file": ({"game": "my_envs.py:Thing-v0"}, r"write --game=my_envs:Thing-v0\."),
    "no time limit": (
        {"game": "CliffWalking-v1", "staggered_start": True},
        "^--staggered_start needs a time limit .* has none; set --max_",
    ),
}


@pytest.mark.parametrize(("settings", "sentence"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_made_gets_one_sentence(settings, sentence):
    with pytest.raises(ValueError, match=sentence) as refusal:
        make(GymConfig(**settings), seed=0)
    assert "\n" not in str(refusal.value)


def test_the_constructor_gets_its_arguments():
    env = make(GymConfig(game="tests.environments.hallway:Hallway-v0", env_kwargs='{"size": 7}'), seed=0)
    assert env.observation_space.high.tolist() == [7]


def test_equal_arguments_are_equal_however_they_are_written():
    assert GymConfig(env_kwargs='{"b":1,"a": [2]}') == GymConfig(env_kwargs=' {"a":[2], "b" : 1}')


@pytest.mark.parametrize(
    ("options", "rows"),
    [
        (
            {"game": "SeedRlDictUnlimited-v0", "num_action_repeats": 3},
            [(3, 1 + 2 + 3, False, False), (5, 4 + 5, True, False)],
        ),
        (
            {"game": "SeedRlDict-v0", "num_action_repeats": 3},
            [(3, 1 + 2 + 3, False, False), (4, 4, False, True)],
        ),
        (
            {"game": "SeedRlDict-v0", "num_action_repeats": 2, "max_episode_frames": 3},
            [(2, 1 + 2, False, False), (3, 3, False, True)],
        ),
    ],
)
def test_repeats_sum_rewards_and_stop_at_an_end_and_limits_count_environment_frames(options, rows):
    assert _episode(**options) == rows


def test_a_module_before_the_id_is_imported():
    assert make(GymConfig(game="gymnasium:CartPole-v1"), seed=0).spec.id == "CartPole-v1"


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        ("run `pip install engine`", r"^--game=SeedRlDict-v0 needs .*pip install engine"),
        ('MuJoCo is not installed, run `pip install "gymnasium[mujoco]"`', r"-m pip install .*\[mujoco\]'"),
        ("Box2D is not installed, you can install it by run `pip install swig`", r" install .*\[box2d\]'"),
        ("No module named 'minigrid'", r"-m pip install .*\[minigrid\]'"),
    ],
)
def test_a_missing_engine_is_named_with_the_command_that_installs_it(monkeypatch, problem, words):
    def missing(**_):
        raise gymnasium.error.DependencyNotInstalled(problem)

    monkeypatch.setattr(gymnasium.registry["SeedRlDict-v0"], "entry_point", missing)
    with pytest.raises(ImportError, match=words):
        make(GymConfig(game="SeedRlDict-v0"), seed=0)


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


def test_a_seed_makes_an_episode_the_first_again():
    batch = SingleEnvironments(SUITE, STAGGERED, [3, 4])
    batch.reset()
    first = ends(batch, 120)
    batch.reset([3, 4])
    assert ends(batch, 120) == first


def test_evaluation_plays_whole_episodes():
    batch = SingleEnvironments(SUITE, STAGGERED.for_evaluation(), [0])
    batch.reset()
    assert ends(batch, 51) == [[(49, False)]]
