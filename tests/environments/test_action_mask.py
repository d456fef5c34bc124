"""Masks of allowed actions on their way from `info` or a Dict into the observation."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from seed_rl.environments.failures import EnvironmentFailedError
from seed_rl.environments.singles import SingleEnvironments
from seed_rl.environments.suites.classic import SUITE, GymConfig
from seed_rl.types import ArraySpec
from tests.environments import forbidding

A, WHEN = 3, 2  # Agent step 2 gives the mask that a test wants.
HONEST = np.array([1, 0, 1], bool)


class Masks(gymnasium.Env):
    """Gives HONEST, but another mask in agent step WHEN, in which the episode may end."""

    observation_space = spaces.Box(0.0, 9.0, (2,), np.float32)

    def __init__(self, mask=None, ends=None, in_observation=False, action_space=None):
        self.action_space = action_space or spaces.Discrete(A)
        self._other, self._ends, self._in_observation = mask, ends, in_observation
        if in_observation:
            space = spaces.Box(0, 1, np.shape(HONEST), np.int8)
            self.observation_space = spaces.Dict(seen=self.observation_space, action_mask=space)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self._masked(HONEST)

    def step(self, action):
        self.time += 1
        ends = [self._ends == name and self.time == WHEN for name in ("terminated", "truncated")]
        observation, info = self._masked(self._other if self.time == WHEN else HONEST)
        return observation, 0.0, *ends, info

    def _masked(self, mask):
        mask = {} if mask is None else {"action_mask": mask}
        seen = np.full(2, self.time, np.float32)
        return ({"seen": seen, **mask}, {}) if self._in_observation else (seen, mask)


def batch(settings=(), **kwargs):
    """A batch of one environment with these arguments."""
    gymnasium.register("Masks-v0", lambda: Masks(**kwargs))
    try:
        return SingleEnvironments(SUITE, GymConfig(game="Masks-v0", **dict(settings)), [1])
    finally:
        gymnasium.registry.pop("Masks-v0")


def mask_of(output, size=A):
    return np.unpackbits(output.observation["action_mask"], -1, count=size)[0].astype(bool).tolist()


def play(env, num_steps=WHEN, shape=(1,)):
    env.reset()
    for _ in range(num_steps):
        output, _ = env.step(np.zeros(shape, np.int32))
    return output


OTHER = [False, True, True]


@pytest.mark.parametrize(
    "mask", [OTHER, np.array(OTHER), np.array(OTHER, np.int8), np.array(OTHER, np.float64)], ids=repr
)
@pytest.mark.parametrize("in_observation", [False, True])
def test_a_mask_becomes_a_part_of_the_observation(mask, in_observation):
    env = batch(mask=mask, in_observation=in_observation)
    name = "seen" if in_observation else "observation"
    assert env.spec.observation == {"action_mask": ArraySpec.packed((A,)), name: ArraySpec((2,), "float32")}
    assert mask_of(env.reset()) == HONEST.tolist()
    output = play(env)
    assert mask_of(output) == OTHER
    assert output.observation[name].tolist() == [[WHEN, WHEN]]


FORM = "but it must be a bool (or 0 or 1) for each of the 3 values of the action"
FAULTS = {
    "missing": (None, "returned no action_mask; every step that does not end an episode must give one"),
    "no action": ([0, 0, 0], "returned an action_mask that forbids all actions; it must allow at least one"),
    "too short": (np.ones(2, bool), f"returned bool[2] for the action_mask, {FORM}"),
    "one row too many": (np.ones((1, 3), bool), f"returned bool[1, 3] for the action_mask, {FORM}"),
    "a number": (1, f"returned int64[] for the action_mask, {FORM}"),
    "twos": (np.array([0, 1, 2]), f"returned int64[3] for the action_mask, {FORM}"),
    "nan": (np.array([0.0, 1.0, np.nan]), f"returned float64[3] for the action_mask, {FORM}"),
    "text": ("101", f"returned <U3[] for the action_mask, {FORM}"),
}


@pytest.mark.parametrize("in_observation", [False, True])
@pytest.mark.parametrize("name", FAULTS)
def test_another_mask_is_a_failure_that_one_sentence_explains(name, in_observation):
    mask, sentence = FAULTS[name]
    env = batch(mask=mask, in_observation=in_observation)
    with pytest.raises(EnvironmentFailedError) as found:
        play(env)
    assert f"Environment 0 failed in episode 1 at agent step 2: step() {sentence};" in str(found.value)


@pytest.mark.parametrize("mask", [None, [0, 0, 0]])
@pytest.mark.parametrize("ends", ["terminated", "truncated"])
def test_the_last_step_of_an_episode_needs_no_mask(ends, mask):
    output = play(batch(mask=mask, ends=ends))
    expected = HONEST.tolist() if ends == "terminated" else [True] * A  # A new episode has begun, or not.
    assert mask_of(output) == expected


def test_masks_of_several_actions_follow_one_another():
    env = batch(mask=[1, 1, 0], action_space=spaces.MultiDiscrete([2, 1]))
    with pytest.raises(EnvironmentFailedError, match="forbids all actions"):
        play(env, shape=(1, 2))
    assert mask_of(batch(action_space=spaces.MultiDiscrete([2, 1])).reset()) == HONEST.tolist()


@pytest.mark.parametrize(
    ("settings", "kwargs", "sentence"),
    [
        ({}, {"action_space": spaces.Box(-1.0, 1.0, (3,))}, "only discrete actions can be masked"),
        ({"num_action_repeats": 2}, {}, r"_repeats=2 could take .*; use --num_action_repeats=1\."),
        ({"random_start_steps": 5}, {}, r"_steps=5 could take .*; use --random_start_steps=0\."),
    ],
)
def test_what_cannot_be_masked_is_refused(settings, kwargs, sentence):
    with pytest.raises(ValueError, match=sentence):
        batch(settings, **kwargs)


@pytest.mark.parametrize("in_observation", [False, True])
def test_a_staggered_first_episode_keeps_its_masks(in_observation):
    kwargs = '{"in_observation": true}' if in_observation else "{}"
    game = f"{forbidding.__name__}:Forbidding-v0"
    config = GymConfig(game=game, env_kwargs=kwargs, staggered_start=True, max_episode_frames=50)
    env = SingleEnvironments(SUITE, config, [1, 2])
    output = env.reset()
    rng = np.random.default_rng(0)
    for _ in range(200):
        allowed = np.unpackbits(output.observation["action_mask"], -1, count=4)
        actions = np.where(allowed, rng.random(allowed.shape), -1).argmax(-1)
        output, infos = env.step(actions.astype(np.int32))
        assert not any(info.get("metrics", {}).get("forbidden") for info in infos)
    env.close()
