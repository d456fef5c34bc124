"""An agent reads observations as training does: the next observation is one more line."""

import copy

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from seed_rl.environments.action_mask import masked
from seed_rl.environments.base import EnvironmentConfig, Suite
from seed_rl.environments.singles import SingleEnvironments
from seed_rl.evaluation.agent import Agent
from seed_rl.types import ACTION_MASK, flatten_like
from tests.evaluation.test_player import Scripted

BOX = spaces.Box(-9, 9, (3,), np.float32)
BITS = spaces.Box(0, 1, (3,), np.bool_)
MASKED = spaces.Dict({"x": BOX, ACTION_MASK: spaces.MultiBinary(3)})
NEST = spaces.Dict(a=spaces.Tuple([spaces.Discrete(5, start=2), spaces.Text(20)]), b=BOX)
# Observations of an environment with a space.
OBSERVATIONS = {
    "its own": (BOX, np.ones(3, np.float32)),
    "a list": (BOX, [1, 2.5, 3]),
    "a tuple": (BOX, (1.0, 2.0, 3.0)),
    "float64": (BOX, np.full(3, 0.1)),
    "float16": (BOX, np.full(3, 0.1, np.float16)),
    "integers": (BOX, np.arange(3)),
    "the other byte order": (BOX, np.arange(3, dtype=">f4")),
    "a column of a table": (BOX, np.arange(9.0).reshape(3, 3)[:, 1]),
    "an image": (spaces.Box(0, 255, (4, 4), np.uint8), np.full((4, 4), 255, np.uint8)),
    "float64 in its own space": (spaces.Box(-9, 9, (2,), np.float64), np.full(2, 1e-9)),
    "Discrete as an int": (spaces.Discrete(5), 4),
    "Discrete as an array": (spaces.Discrete(5), np.array(4, np.uint8)),
    "Discrete with a start": (spaces.Discrete(5, start=-3), -1),
    "MultiDiscrete as a list": (spaces.MultiDiscrete([3, 4]), [2, 3]),
    "MultiBinary": (spaces.MultiBinary(3), np.array([1, 0, 1], np.int8)),
    "MultiBinary as bools": (spaces.MultiBinary(3), [True, False, True]),
    "bools": (BITS, [True, False, True]),
    "bools as int8": (BITS, np.array([1, 0, 1], np.int8)),
    "bools as floats": (BITS, [1.0, 0.0, 1.0]),
    "one bool as an int": (spaces.Box(0, 1, (), np.bool_), 1),
    "text": (spaces.Text(20), "go left"),
    "text of NumPy": (spaces.Text(20), np.str_("go left")),
    "a nest": (NEST, {"a": (6, "go left"), "b": np.ones(3)}),
    "a nest with more and lists": (NEST, {"a": [np.int8(6), "go left"], "b": [1, 2, 3], "more": 1}),
    "a mask of int8": (MASKED, {"x": np.ones(3), ACTION_MASK: np.array([0, 1, 0], np.int8)}),
    "a mask of bools": (MASKED, {"x": np.ones(3), ACTION_MASK: [False, True, False]}),
    "a mask of floats": (MASKED, {"x": np.ones(3), ACTION_MASK: np.array([0.0, 1.0, 1.0])}),
}


class Returns(gymnasium.Env):
    action_space = spaces.Discrete(3)

    def __init__(self, space, observation):
        self.observation_space, self.observation = space, observation

    def reset(self, *, seed=None, options=None):
        return self.observation, {}

    def step(self, action):
        return self.observation, 0.0, False, False, {}


def in_batch(space, observation, container):
    """Two equal observations as a vector environment gives them; its arrays may be lists."""
    if isinstance(space, spaces.Dict):
        return {name: in_batch(child, observation[name], container) for name, child in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        children = zip(space.spaces, observation, strict=True)
        return tuple(in_batch(child, entry, container) for child, entry in children)
    return container([observation] * 2)


@pytest.mark.parametrize("container", [None, np.array, list])
@pytest.mark.parametrize(("space", "observation"), OBSERVATIONS.values(), ids=OBSERVATIONS)
def test_an_agent_takes_what_training_takes(space, observation, container, monkeypatch):
    config = EnvironmentConfig()

    def make(config, seed):
        return masked(Returns(space, observation), {}, config)

    size = 1 if container is None else 2
    batch = SingleEnvironments(Suite(EnvironmentConfig, make), config, range(size))
    expected = flatten_like(batch.spec.observation, copy.deepcopy(batch.reset().observation))

    agent = Agent(Scripted(), make(config, 0), config, 0, None if container is None else size)
    seen = []

    def choose(env):
        seen.append(copy.deepcopy(env))
        return np.zeros(size, np.int32)

    monkeypatch.setattr(agent, "_choose", choose)
    given = observation if container is None else in_batch(space, observation, container)
    for _ in range(2):
        agent.act(given)
    assert [env.done.tolist() for env in seen] == [[True] * size, [False] * size]
    for env in seen:
        for array, wanted in zip(
            flatten_like(batch.spec.observation, env.observation), expected, strict=True
        ):
            assert array.dtype == wanted.dtype
            np.testing.assert_array_equal(array, wanted)


# Input of an agent, and words of the sentence.
REFUSED = {
    "another shape": (BOX, np.zeros(4), r"act\(\) got float64\[4\] for the observation, but"),
    "NaN": (BOX, [1, np.nan, 2], r"act\(\) got nan for the observation at \[1\]"),
    "text": (BOX, "go left", r"act\(\) got <U7\[\] for the observation"),
    "nothing": (BOX, None, r"act\(\) got object\[\] for the observation"),
    "2 as a bool": (BITS, [1, 2, 0], r"act\(\) got int64\[3\] for the observation, but"),
    "a missing entry": (NEST, {"b": np.ones(3)}, r"act\(\) got no array for the observation 'a/0'"),
}


@pytest.mark.parametrize(("space", "observation", "words"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_gets_one_sentence(space, observation, words):
    agent = Agent(Scripted(), Returns(space, None), EnvironmentConfig(), 0)
    with pytest.raises(ValueError, match=words) as error:
        agent.act(observation)
    assert str(error.value).isprintable() and str(error.value).endswith(".")


def test_an_agent_acts_as_the_space_samples():
    for num_envs in (None, 2):
        agent = Agent(Scripted(), Returns(BOX, None), EnvironmentConfig(), 0, num_envs)
        action = agent.act(np.zeros(3) if num_envs is None else np.zeros((2, 3)))
        assert action.dtype == np.int64 and action.shape == (() if num_envs is None else (2,))
