"""An agent reads observations as training does: the next observation is one more line."""

import copy
import itertools

import gymnasium
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from seed_rl.algorithms.policy import Policy
from seed_rl.environments.action_mask import masked
from seed_rl.environments.base import EnvironmentConfig, Info, Suite
from seed_rl.environments.failures import FailureConfig
from seed_rl.environments.singles import SingleEnvironments
from seed_rl.environments.suites.atari import SUITE as ATARI
from seed_rl.environments.suites.atari import AtariConfig
from seed_rl.evaluation.agent import Agent, PolicySide
from seed_rl.evaluation.load import EvaluateConfig
from seed_rl.evaluation.matches import play_games
from seed_rl.evaluation.video import Rerun
from seed_rl.seeds import derived_seed
from seed_rl.types import ACTION_MASK, AgentOutput, ArraySpec, flatten_like
from tests.selection import mostly_slow

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

    def choose(env, rows):
        assert rows.tolist() == list(range(size))
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


# Input of an agent, the number of its environments if there are several, and words of the sentence.
REFUSED = {
    "another shape": (BOX, np.zeros(4), None, r"float64\[4\] for the observation, but"),
    "NaN": (BOX, [1, np.nan, 2], None, r"nan for the observation at \[1\]"),
    "text": (BOX, "go left", None, r"<U7\[\] for the observation"),
    "nothing": (BOX, None, None, r"object\[\] for the observation"),
    "2 as a bool": (BITS, [1, 2, 0], None, r"int64\[3\] for the observation, but"),
    "a missing entry": (NEST, {"b": np.ones(3)}, None, "no array for the observation 'a/0'"),
    "three of two": (BOX, np.zeros((3, 3), np.float32), 2, ".* of 2 environments"),
    "none of two": (BOX, np.float32(1), 2, ".* of 2 environments"),
}


@pytest.mark.parametrize(("space", "observation", "num_envs", "words"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_gets_one_sentence(space, observation, num_envs, words):
    agent = Agent(Scripted(), Returns(space, None), EnvironmentConfig(), 0, num_envs)
    with pytest.raises(ValueError, match=rf"act\(\) got {words}") as error:
        agent.act(observation)
    assert str(error.value).isprintable() and str(error.value).endswith(".")


@pytest.mark.parametrize(("num_envs", "shape"), [(None, ()), (2, (2,))])
def test_an_agent_acts_as_the_space_samples(num_envs, shape):
    agent = Agent(Scripted(), Returns(BOX, None), EnvironmentConfig(), 0, num_envs)
    action = agent.act(np.zeros((*shape, 3)))
    assert (action.dtype, action.shape) == (np.int64, shape)


class Scripted(Policy):
    """Counts in its recurrent state; acts by the count, by the last action and by the environment's id."""

    num_actions = 3

    def initial_state(self, batch_size):
        return tf.zeros([batch_size], tf.int32)

    def act(self, prev_action, env, state, env_ids):
        state = tf.where(env.done, tf.zeros_like(state), state) + 1
        action = (state * 7 + prev_action + env_ids) % self.num_actions
        return AgentOutput(action, {}), state

    def act_greedy(self, prev_action, env, state, env_ids):
        del prev_action, env_ids
        return AgentOutput(tf.ones_like(state), {}), state


def length(seed):
    return 3 + seed % 7


class Ladder(gymnasium.Env):
    """An episode of `length(seed)` agent steps; the reward of each is the action.

    Every third agent step loses a life; with an odd seed a time limit ends the episode.
    """

    observation_space = spaces.Box(0.0, 1e6, (1,), np.float32)
    action_space = spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            self.seed, self.left = seed, length(seed)
            self.played = 0
        return np.array([self.left], np.float32), {}

    def step(self, action):
        self.left -= 1
        self.played += 1
        observation = np.array([self.left], np.float32)
        if self.left == 0:
            truncated = bool(self.seed % 2)
            return observation, float(action), not truncated, truncated, {}
        life_lost = self.played % 3 == 0
        info = {Info.EPISODE_CONTINUES: True} if life_lost else {}
        return observation, float(action), life_lost, False, info


LADDER = Suite(EnvironmentConfig, lambda config, seed, render_mode=None: Ladder())


def played(suite=LADDER, environment=EnvironmentConfig(), policy=None, env_id=0, **settings):  # noqa: B008
    config = EvaluateConfig.of(**{"episodes": 5, "num_envs": 2, "seed": 1} | settings)
    return sorted(play_games(suite, environment, [scripted(policy or Scripted(), env_id, config)], config))


def scripted(policy, env_id, config):
    """A side that acts by a policy with `num_actions`."""
    action = ArraySpec((), "int32", (0,), (policy.num_actions - 1,))
    return PolicySide(policy, action, env_id, config.greedy, config.seed)


@pytest.mark.parametrize("num_envs", [1, 2, 5, 16])
def test_each_episode_is_played_once_whatever_its_length_and_however_many_play(num_envs):
    episodes = played(num_envs=num_envs, episodes=7, seed=3)
    assert [e.number for e in episodes] == list(range(7))
    assert [e.seed for e in episodes] == [derived_seed(3, number) for number in range(7)]
    assert [e.agent_steps for e in episodes] == [length(e.seed) for e in episodes]
    assert all(e.episode_return == sum(e.actions) for e in episodes)


def events(first, num_envs, seed):
    """An environment's turns: agent steps (None, or the number of the episode that ends); resets."""
    for number in itertools.count(first, num_envs):
        of_episode = derived_seed(seed, number)
        yield from [None] * (length(of_episode) - 1)
        yield number
        if of_episode % 2:  # A time limit ended it: its last observation is shown before the reset.
            yield "reset"


@pytest.mark.parametrize("num_envs", [1, 3])
@pytest.mark.parametrize("max_agent_steps", [2, 10, 50, 51, 52, 53, 54])
def test_agent_steps_may_be_limited(num_envs, max_agent_steps):
    """Of all environments together; resets are none, and unfinished episodes do not count."""
    streams, left, ended = [events(i, num_envs, seed=3) for i in range(num_envs)], max_agent_steps, []
    while True:
        turn = [next(stream) for stream in streams]
        left -= num_envs - turn.count("reset")
        if left < 0:
            break
        ended += [event for event in turn if event not in (None, "reset")]
    episodes = played(num_envs=num_envs, episodes=None, seed=3, max_agent_steps=max_agent_steps)
    assert [episode.number for episode in episodes] == sorted(ended)


def test_the_recurrent_state_the_last_action_and_the_id_reach_the_policy():
    (episode,) = played(episodes=1, seed=8, env_id=5)
    count, last, want = 0, 0, []
    for step in range(length(episode.seed)):
        count = 1 if step % 3 == 0 else count + 1  # The loss of a life is an episode's end for the policy.
        last = (7 * count + last + 5) % 3
        want.append(last)
    assert episode.actions == want


def test_greedy_is_the_policys_greedy():
    assert all(set(e.actions) == {1} for e in played(greedy=True))


@pytest.mark.parametrize("lives", mostly_slow([False, True], [False]))
def test_a_rerun_of_a_real_game_repeats_it(lives):
    pytest.importorskip("ale_py")
    config = AtariConfig(game="Breakout", full_action_space=False, terminal_on_life_loss=lives)
    config = config.for_evaluation() if not lives else config
    policy = Scripted()
    policy.num_actions = 4
    (episode,) = played(ATARI, config, policy, episodes=1, num_envs=1, seed=4)
    rerun = Rerun(ATARI, config, episode, FailureConfig())
    scenes = list(rerun)
    assert rerun.is_faithful
    assert rerun.scenes_per_second == 15
    assert len(scenes) == episode.agent_steps + 1
    assert scenes[-1][1:] == (episode.episode_return, episode.agent_steps)
    assert {scene.picture.shape for scene in scenes} == {(210, 160, 3)}
    assert any((a.picture != b.picture).any() for a, b in itertools.pairwise(scenes))

    other = Rerun(ATARI, config, episode._replace(episode_return=episode.episode_return + 1), FailureConfig())
    list(other)
    assert not other.is_faithful
