"""Environments of OpenAI's gym, in the form that came before Gymnasium's: four values a step."""

import sys

import numpy as np
import pytest

from seed_rl.environments.suites import old_gym
from seed_rl.environments.suites.classic import SUITE, GymConfig, make
from tests.environments.contract import fulfils

pytest.importorskip("gfootball", reason="gfootball brings the old gym, which does not install by itself")
gym = old_gym.import_gym()


class OldEnv(gym.Env):
    """Terminates when the walk has left -3 to 3; the reward is where it is."""

    def __init__(self, scale=1.0):
        self.action_space = gym.spaces.Discrete(2)
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float64)
        self.scale, self.noise = scale, np.random.default_rng(0)

    def seed(self, seed=None):
        self.noise = np.random.default_rng(seed)

    def reset(self):
        self.place = 0
        return self._observe()

    def step(self, action):
        self.place += 1 if action else -1
        return self._observe(), self.scale * self.place, abs(self.place) > 3, {}

    def render(self, mode="human"):
        assert mode == "rgb_array"
        return np.full((4, 4, 3), 7 + self.place, np.uint8)

    def _observe(self):
        return np.array([self.place, self.noise.normal()])


class OldText(OldEnv):
    def __init__(self):
        super().__init__()
        self.observation_space = gym.spaces.Space()


@pytest.fixture(autouse=True)
def registered():
    gym.register("SeedRlOld-v0", entry_point=OldEnv)
    gym.register("SeedRlOldLimited-v0", entry_point=OldEnv, max_episode_steps=8, kwargs={"scale": 0.5})
    gym.register("SeedRlOldText-v0", entry_point=OldText)
    yield
    for name in ("SeedRlOld-v0", "SeedRlOldLimited-v0", "SeedRlOldText-v0"):
        del gym.envs.registry[name]


TestOld = fulfils(SUITE, GymConfig(game="SeedRlOld-v0"))
TestOldWithALimit = fulfils(SUITE, GymConfig(game="SeedRlOldLimited-v0"))


def test_the_registered_limit_truncates_and_kwargs_arrive():
    env = make(GymConfig(game="SeedRlOldLimited-v0"), 0)
    env.reset()
    steps = [env.step(frame % 2 == 0) for frame in range(8)]
    assert [step[1] for step in steps] == [0.5, 0.0] * 4
    assert [step[2:4] for step in steps] == [(False, False)] * 7 + [(False, True)]


def test_rendered_as_it_can():
    env = make(GymConfig(game="SeedRlOld-v0"), 0, "rgb_array")
    env.reset()
    env.step(1)
    assert env.render().tolist() == np.full((4, 4, 3), 8).tolist()


def test_spaces_that_gymnasium_has_not_are_refused():
    with pytest.raises(ValueError, match=r"^--game=SeedRlOldText-v0 cannot be used: "):
        make(GymConfig(game="SeedRlOldText-v0"), 0)


def test_without_shimmy_the_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "shimmy", None)
    with pytest.raises(ImportError, match=r"-m pip install .*\[gym\]'"):
        make(GymConfig(game="SeedRlOld-v0"), 0)


def test_unknown_to_both():
    with pytest.raises(ValueError, match="is not a Gymnasium id"):
        make(GymConfig(game="SeedRlOlder-v0"), 0)
