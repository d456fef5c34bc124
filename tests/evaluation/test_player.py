import itertools
import sys

import gymnasium
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from seed_rl.algorithms.policy import Policy
from seed_rl.environments.base import EnvironmentConfig, Info, Suite
from seed_rl.environments.failures import FailureConfig
from seed_rl.environments.suites.atari import SUITE as ATARI
from seed_rl.environments.suites.atari import AtariConfig
from seed_rl.evaluation.player import play
from seed_rl.evaluation.rerun import Rerun
from seed_rl.seeds import derived_seed
from seed_rl.types import AgentOutput
from tests.selection import mostly_slow


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


def played(suite=LADDER, config=None, policy=None, **settings):
    settings = {"env_id": 0, "episodes": 5, "num_envs": 2, "greedy": False, "seed": 1} | settings
    settings["tolerance"] = FailureConfig()
    return sorted(play(suite, config or EnvironmentConfig(), policy or Scripted(), **settings))


@pytest.mark.parametrize("num_envs", [1, 2, 5, 16])
def test_each_episode_is_played_once_whatever_its_length_and_however_many_play(num_envs):
    episodes = played(num_envs=num_envs, episodes=7, seed=3)
    assert [e.number for e in episodes] == list(range(7))
    assert [e.seed for e in episodes] == [derived_seed(3, number) for number in range(7)]
    assert [e.agent_steps for e in episodes] == [length(e.seed) for e in episodes]
    assert all(len(e.actions) == e.agent_steps for e in episodes)
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
    episodes = played(num_envs=num_envs, episodes=sys.maxsize, seed=3, max_agent_steps=max_agent_steps)
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
