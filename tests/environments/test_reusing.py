"""Environments that reuse and share what they return and get: the next report is one more line.

An environment that returns new objects, and plays the same otherwise, must give the same steps and episodes.
"""

import copy

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from seed_rl.environments.base import EnvironmentConfig, Suite, repeat_actions
from seed_rl.environments.failures import NO_FAILURES
from seed_rl.environments.singles import SingleEnvironments
from seed_rl.environments.vector import VectorEnvironment
from seed_rl.evaluation.agent import Share
from seed_rl.evaluation.load import EvaluateConfig
from seed_rl.evaluation.video import Rerun
from tests.environments.contract import played

E, LENGTH = 3, 5


class Reusing(gymnasium.Env):
    """Episodes of 5 agent steps that terminate, or with `truncates` do not; the reward is the action's sum.

    `kept` is what it reuses; it may be that of all environments. Their entries are written over by `reset`,
    where the time is 0. The action is doubled in place.
    """

    action_space = spaces.Box(-9, 9, (2,))
    observation_space = spaces.Dict(
        place=spaces.Box(0, 99, (2,)), beside=spaces.Tuple([spaces.Box(0, 9, ())])
    )

    def __init__(self, kept, truncates=False, render_mode=None):
        self.kept, self.truncates, self.render_mode = kept, truncates, render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time, self.start = 0, int(self.np_random.integers(50))
        return self._shown()

    def step(self, action):
        self.time += 1
        action *= 2
        ended = self.time == LENGTH
        observation, info = self._shown()
        return observation, float(action.sum()), ended and not self.truncates, ended and self.truncates, info

    def render(self):
        self.kept["picture"][:] = self.time
        return self.kept["picture"]

    def _shown(self):
        kept = self.kept
        kept["place"][:] = self.start, self.time
        kept["beside"][...] = self.time
        kept["info"].clear()
        kept["metrics"]["time"] = self.start + self.time
        kept["number"][...] = self.start + self.time
        kept["metrics"]["number"] = kept["number"]
        kept["info"].update(is_success=self.time == LENGTH, metrics=kept["metrics"])
        return kept["observation"], kept["info"]


def kept():
    """Memory for what an environment returns."""
    place, beside = np.zeros(2, np.float32), np.zeros((), np.float32)
    others = {"info": {}, "metrics": {}, "number": np.zeros(()), "picture": np.zeros((2, 2, 3), np.uint8)}
    return {"place": place, "beside": beside, "observation": {"place": place, "beside": (beside,)}, **others}


class Fresh(gymnasium.Wrapper):
    """Neither what an environment has returned nor what it has got changes any more."""

    def reset(self, **given):
        return copy.deepcopy(self.env.reset(**given))

    def step(self, action):
        return copy.deepcopy(self.env.step(action.copy()))


class Vector(gymnasium.vector.VectorWrapper):
    """Reuses the arrays of its infos, too."""

    def __init__(self, env):
        super().__init__(env)
        self.infos = {}

    def reset(self, **given):
        observation, infos = self.env.reset(**given)
        return observation, over(self.infos, infos)

    def step(self, actions):
        *others, infos = self.env.step(actions)
        return (*others, over(self.infos, infos))


def over(kept, new):
    """Writes the entries of a dict over those of another, and into their arrays; returns that."""
    for name, value in new.items():
        if isinstance(value, dict):
            over(kept.setdefault(name, {}), value)
        elif name in kept:
            kept[name][...] = value
        else:
            kept[name] = value
    return kept


def singles(fresh, truncates, shared=False, repeats=1):
    config, memory = EnvironmentConfig(num_action_repeats=repeats), kept()

    def make(config, seed):
        env = Reusing(memory if shared else kept(), truncates)
        return repeat_actions(Fresh(env) if fresh else env, config)

    return SingleEnvironments(Suite(EnvironmentConfig, make), config, range(E))


def vector(make):
    suite = Suite(EnvironmentConfig, Reusing, lambda config, seeds: make())
    return VectorEnvironment(suite, EnvironmentConfig(), range(E))


def sync(fresh, truncates):
    wrapper = Fresh if fresh else gymnasium.Wrapper
    return vector(lambda: SyncVectorEnv([lambda: wrapper(Reusing(kept(), truncates))] * E))


def vector_that_resets(mode):
    """Of environments that return new objects; only its own arrays are reused."""

    def make(fresh, truncates):
        functions = [lambda: Fresh(Reusing(kept(), truncates))] * E
        inner = SyncVectorEnv(functions, copy=fresh, autoreset_mode=mode)
        return vector(lambda: inner if fresh else Vector(inner))

    return make


# Makers of batches of environments that reuse their arrays (`fresh`: not), and truncate or not.
BATCHES = {
    "each its own": singles,
    "what all share": lambda fresh, truncates: singles(fresh, truncates, shared=True),
    "actions repeated": lambda fresh, truncates: singles(fresh, truncates, repeats=2),
    "Gymnasium's vector": sync,
    **{f"a vector that resets in mode {mode.name}": vector_that_resets(mode) for mode in AutoresetMode},
}


@pytest.mark.parametrize("truncates", [False, True])
@pytest.mark.parametrize("make", BATCHES.values(), ids=BATCHES)
def test_what_an_environment_reuses_changes_nothing(make, truncates):
    found, expected = (played(make(fresh, truncates), 3 * LENGTH, range(E)) for fresh in (False, True))
    np.testing.assert_equal(found, expected)
    _, episodes = found
    assert len(episodes) >= E and all(figures["is_success"] == 1 for *_, figures in episodes)


@pytest.mark.parametrize("repeats", [1, 2])
def test_a_recorded_episode_is_played_again_as_often_as_one_likes(repeats):
    def make(config, seed, render_mode=None):
        return repeat_actions(Reusing(kept()), config)

    suite, config = Suite(EnvironmentConfig, make), EnvironmentConfig(num_action_repeats=repeats)
    share = Share(suite, config, [None], range(1), EvaluateConfig.of())
    share.begin()
    while not (episodes := list(share.step(np.array([[0.25, 0.5]], np.float32), np.array([True])))):
        pass
    (episode,) = episodes
    assert [action.tolist() for action in episode.actions] == [[0.25, 0.5]] * -(-LENGTH // repeats)
    assert episode.figures["is_success"] == 1
    for _ in range(2):
        again = Rerun(suite, config, episode, NO_FAILURES)
        scenes = list(again)
        assert again.is_faithful
        assert [int(scene.picture.max()) for scene in scenes] == [*range(0, LENGTH, repeats), LENGTH]
