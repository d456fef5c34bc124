"""Batched stepping, with an environment whose every step is scripted."""

from typing import ClassVar

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from seed_rl.environments.base import EnvironmentConfig, Suite
from seed_rl.environments.observations import hash_words
from seed_rl.environments.singles import SingleEnvironments
from tests.environments.contract import suite_of

GO, TERMINATE, TRUNCATE, BOTH = 0, 1, 2, 3


class ScriptedEnv(gymnasium.Env):
    """Actions decide how steps end. Observes [episode, agent step in it]; the reward is the latter."""

    action_space = spaces.Discrete(4)
    observation_space = spaces.Box(0, 100, (2,), np.float64)

    def __init__(self):
        self.episode, self.seeds, self.actions, self.closed = 0, [], [], 0

    def reset(self, *, seed=None, options=None):
        self.episode += 1
        self.agent_step = 0
        self.seeds.append(seed)
        return np.array([self.episode, 0.0]), {"reset": True}

    def step(self, action):
        self.agent_step += 1
        self.actions.append(action)
        observation = np.array([self.episode, self.agent_step], np.float64)
        info = {"steps": self.agent_step}
        return observation, self.agent_step, action in (TERMINATE, BOTH), action in (TRUNCATE, BOTH), info

    def close(self):
        self.closed += 1


def _batch(*envs):
    return SingleEnvironments(suite_of(*envs), EnvironmentConfig(), range(len(envs)))


def _play(env, actions):
    """[(observation, reward, done, truncated, info)] of one environment."""
    batch = _batch(env)
    rows = []

    def keep(output, infos):
        reward, done, truncated, (observation,) = output
        rows.append((observation.tolist(), reward.item(), done.item(), truncated.item(), *infos))

    keep(batch.reset(), [None])
    for action in actions:
        keep(*batch.step(np.array([action], np.int32)))
    return rows


def test_termination_resets_at_once():
    assert _play(ScriptedEnv(), [GO, TERMINATE, GO]) == [
        ([1, 0], 0, True, False, None),
        ([1, 1], 1, False, False, {"steps": 1}),
        ([2, 0], 2, True, False, {"steps": 2}),
        ([2, 1], 1, False, False, {"steps": 1}),
    ]


def test_truncation_shows_the_last_observation_and_then_resets():
    env = ScriptedEnv()
    assert _play(env, [GO, TRUNCATE, TERMINATE, GO]) == [
        ([1, 0], 0, True, False, None),
        ([1, 1], 1, False, False, {"steps": 1}),
        ([1, 2], 2, False, True, {"steps": 2}),
        ([2, 0], 0, True, False, {}),
        ([2, 1], 1, False, False, {"steps": 1}),
    ]
    assert env.actions == [GO, TRUNCATE, GO]  # what answered the truncated step was never executed


def test_a_reset_forgets_a_truncation():
    batch = _batch(ScriptedEnv())
    batch.reset()
    batch.step(np.array([TRUNCATE]))
    assert batch.reset().observation.tolist() == [[2, 0]]
    output, _ = batch.step(np.array([GO]))
    assert (output.observation.tolist(), output.done.tolist()) == ([[2, 1]], [False])


def test_many_environments_step_as_each_would_alone():
    """Steps in which nothing ends are written together, others one by one; nothing may show which."""
    rng = np.random.default_rng(0)
    together, alone = _batch(*[ScriptedEnv() for _ in range(3)]), [_batch(ScriptedEnv()) for _ in range(3)]
    together.reset()
    for batch in alone:
        batch.reset()
    for actions in rng.choice(4, size=(200, 3), p=[0.85, 0.05, 0.05, 0.05]):
        output, infos = together.step(actions)
        expected = [batch.step(actions[i : i + 1]) for i, batch in enumerate(alone)]
        for arrays in zip(output, *(one for one, _ in expected), strict=True):
            np.testing.assert_array_equal(arrays[0], np.concatenate(arrays[1:]))
        assert infos == [one for _, (one,) in expected]


@pytest.mark.parametrize(
    "actions", [np.zeros(1, np.int32), np.zeros((2, 1), np.int32), np.zeros(2, np.float32), np.zeros(2, bool)]
)
def test_wrong_actions_are_refused(actions):
    batch = _batch(ScriptedEnv(), ScriptedEnv())
    with pytest.raises(RuntimeError, match="reset"):
        batch.step(np.zeros(2, np.int32))
    batch.reset()
    with pytest.raises(ValueError, match=r"int32\[2\], not "):
        batch.step(actions)


class NestedEnv(gymnasium.Env):
    """Returns a given observation; its space is a Dict of an int that starts at 3, a uint8 image and text."""

    action_space = spaces.Discrete(2)
    observation_space = spaces.Dict(
        kind=spaces.Discrete(4, start=3),
        inner=spaces.Tuple([spaces.Box(0, 255, (2, 2), np.uint8)]),
        said=spaces.Text(9),
    )
    good: ClassVar = {"kind": np.int64(5), "inner": (np.full((2, 2), 9, np.uint8),), "said": "go left"}

    def __init__(self, **replaced):
        self.observation = {**self.good, **replaced}

    def reset(self, *, seed=None, options=None):
        return self.good, {}

    def step(self, action):
        return self.observation, 0.0, False, False, {}


def test_nested_observations():
    batch = _batch(NestedEnv(), NestedEnv(kind=6))
    batch.reset()
    output, _ = batch.step(np.array([0, 1]))
    assert sorted(output.observation) == ["inner", "kind", "said"]
    assert output.observation["kind"].tolist() == [2, 3]  # counted from 0
    assert output.observation["kind"].dtype == np.int32
    assert output.observation["inner"]["0"].shape == (2, 2, 2)
    assert output.observation["inner"]["0"].dtype == np.uint8
    assert (output.observation["inner"]["0"] == 9).all()
    assert output.observation["said"].tolist() == [[*hash_words("go left")]] * 2


def test_environments_of_different_spaces_are_refused():
    with pytest.raises(ValueError, match=r"Environment 1 has .*equal spaces"):
        _batch(ScriptedEnv(), NestedEnv())


def test_one_is_made_per_seed():
    made = []

    def make(config, seed):
        made.append((config, seed))
        return ScriptedEnv()

    config = EnvironmentConfig(num_action_repeats=2)
    batch = SingleEnvironments(Suite(EnvironmentConfig, make), config, [5, 6, 7])
    assert made == [(config, 5), (config, 6), (config, 7)]
    assert (batch.num_envs, batch.spec.num_action_repeats) == (3, 2)
    with pytest.raises(ValueError, match="--env_batch_size"):
        SingleEnvironments(Suite(EnvironmentConfig, make), config, [])


def test_what_was_made_is_closed_when_one_fails():
    made = []

    def make(config, seed):
        if seed == 2:
            raise ValueError("no such game")
        made.append(ScriptedEnv())
        return made[-1]

    with pytest.raises(ValueError, match="no such game"):
        SingleEnvironments(Suite(EnvironmentConfig, make), EnvironmentConfig(), [0, 1, 2])
    assert [env.closed for env in made] == [1, 1]
