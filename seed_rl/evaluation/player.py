"""Plays episodes in several environments at a time, with one network call for all of them."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import tensorflow as tf

from seed_rl.actor.statistics import EpisodeStatistics
from seed_rl.algorithms.policy import Policy
from seed_rl.environments.base import EnvironmentConfig, Info, Suite
from seed_rl.environments.batched import BatchedEnvironment, make_batched
from seed_rl.types import EnvOutput, Nest


class PlayedEpisode(NamedTuple):
    """An episode that was played to its end.

    Attributes:
      seed: the seed of the environment's reset; with `actions`, it reproduces the episode.
      actions: one per agent step, in the environment's own format.
      episode_return: sum of the raw rewards.
      agent_steps: its length, in agent steps.
    """

    seed: int
    actions: list[Any]
    episode_return: float
    agent_steps: int


class SeededEpisodes(gymnasium.Wrapper):
    """Gives each episode its own seed and records its actions.

    Attributes:
      finished: seed and actions of the last episode that ended.
    """

    def __init__(self, env: gymnasium.Env, seeds: Iterator[int]):
        """Takes a seed for each episode from `seeds`."""
        super().__init__(env)
        self._seeds = seeds
        self._seed: int | None = None
        self._actions: list[Any] = []
        self._continues = False
        self.finished: tuple[int, list[Any]] | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Starts the next episode, or continues one in which only a life was lost."""
        if self._continues:
            self._continues = False
            return self.env.reset()
        self._seed, self._actions = next(self._seeds), []
        return self.env.reset(seed=self._seed)

    def step(self, action: Any) -> Any:
        """Takes one agent step and records the action."""
        self._actions.append(action)
        observation, reward, terminated, truncated, info = self.env.step(action)
        ended = terminated or truncated
        self._continues = bool(ended and info.get(Info.EPISODE_CONTINUES, False))
        if ended and not self._continues:
            assert self._seed is not None
            self.finished = (self._seed, self._actions)
        return observation, reward, terminated, truncated, info


def play(
    suite: Suite,
    environment_config: EnvironmentConfig,
    policy: Policy,
    *,
    env_id: int,
    episodes: int,
    num_envs: int,
    greedy: bool,
    seed: int,
    on_episode: Callable[[PlayedEpisode], None] = lambda episode: None,
) -> list[PlayedEpisode]:
    """Plays episodes with seeds `seed`, `seed + 1`, ….

    Episodes are assigned to environments in advance, so that short episodes do not count more often than
    long ones.

    Args:
      suite: makes the environments.
      environment_config: their settings.
      policy: chooses the actions.
      env_id: the id that `Policy.act` gets for every environment; ids from the run's `num_envs` upwards mean
        evaluation.
      episodes: the number of episodes, at least 1.
      num_envs: E, the number of environments played at the same time.
      greedy: whether to use `Policy.act_greedy` rather than `Policy.act`.
      seed: the seed of the first episode.
      on_episode: called with each episode as it ends.

    Returns:
      The episodes, sorted by seed.
    """
    size = min(num_envs, episodes)
    left = [len(range(index, episodes, size)) for index in range(size)]
    envs: list[SeededEpisodes] = []

    def make(config: EnvironmentConfig, first_seed: int) -> gymnasium.Env:
        envs.append(SeededEpisodes(suite.make(config, first_seed), itertools.count(first_seed, size)))
        return envs[-1]

    seeds = range(seed, seed + size)
    batch = make_batched(Suite(suite.config_class, make), environment_config, seeds)
    statistics = EpisodeStatistics(size)
    played = []
    choose = _Choice(policy, batch, env_id, greedy)
    try:
        env = batch.reset()
        while any(left):
            env, infos = batch.step(choose(env))
            for ended in statistics.update(env, infos):
                finished = envs[ended.env].finished
                if left[ended.env] and finished is not None:
                    left[ended.env] -= 1
                    played.append(PlayedEpisode(*finished, ended.episode_return, ended.agent_steps))
                    on_episode(played[-1])
    finally:
        batch.close()
    return sorted(played, key=lambda episode: episode.seed)


class _Choice:
    """Chooses actions with the policy, and keeps the recurrent states and last actions of E environments."""

    def __init__(self, policy: Policy, batch: BatchedEnvironment, env_id: int, greedy: bool):
        self._act = tf.function(policy.act_greedy if greedy else policy.act, autograph=False)
        self._state: Nest = policy.initial_state(batch.num_envs)
        self._prev_action = tf.constant(batch.spec.action.zeros(batch.num_envs))
        self._env_ids = tf.fill([batch.num_envs], env_id)

    def __call__(self, env: EnvOutput) -> np.ndarray:
        """Actions `[E, ...]` for the environments' outputs, `[E, ...]`."""
        env = tf.nest.map_structure(tf.constant, env)
        output, self._state = self._act(self._prev_action, env, self._state, self._env_ids)
        self._prev_action = output.action
        return output.action.numpy()
