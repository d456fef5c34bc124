"""Plays episodes in several environments at a time, with one network call for all of them."""

import contextlib
import sys
from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from seed_rl.algorithms.policy import Policy
from seed_rl.environments.base import EnvironmentConfig, Suite
from seed_rl.environments.batched import empty_output
from seed_rl.environments.failures import FailureConfig
from seed_rl.evaluation.episodes import PlayedEpisode, Share
from seed_rl.types import EnvironmentSpec, EnvOutput, Nest


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
    tolerance: FailureConfig,
    max_agent_steps: int | None = None,
) -> Iterator[PlayedEpisode]:
    """Plays episodes in up to E = `num_envs` environments at the same time, and yields each as it ends.

    Episodes are assigned to environments in advance, so that short episodes do not count more often than
    long ones. Another episode is played for each that is void because its environment failed. Policies get
    `env_id` for every environment; ids from the run's `num_envs` upwards mean evaluation. No more agent
    steps are played than `max_agent_steps`, of all environments together; what is unfinished then is dropped.

    Raises:
      ValueError: the suite refuses the configuration, or the environments have different spaces.
      ImportError: the suite's engine is not installed.
      EnvironmentFailedError: an environment failed too often. Every episode that ended before was yielded.
    """
    size = min(num_envs, episodes)
    with contextlib.ExitStack() as stack:
        shares = []
        for index in range(size):
            numbers = range(index, episodes, size)
            shares.append(Share(suite, environment_config, seed, numbers, tolerance))
            stack.callback(shares[-1].batch.close)
        spec = shares[0].batch.spec
        env = empty_output(spec, size)
        for index, share in enumerate(shares):
            if share.batch.spec != spec:
                raise ValueError(
                    f"Environment {index} has {share.batch.spec}, but environment 0 has {spec}; environments "
                    "that play together must have equal spaces."
                )
            share.batch.write_to(tf.nest.map_structure(lambda x, i=index: x[i : i + 1], env))
            share.batch.reset()
        choose = Choice(policy, spec, size, env_id, greedy)
        steps_left = sys.maxsize if max_agent_steps is None else max_agent_steps
        while any(share.left for share in shares):
            playing = np.array([share.left > 0 for share in shares])
            steps_left -= int(np.count_nonzero(playing & ~env.truncated))  # A reset is no agent step.
            if steps_left < 0:
                return
            for share, action in zip(shares, np.split(choose(env), size), strict=True):
                if share.left:
                    yield from share.step(action)


class Choice:
    """Chooses actions with the policy, and keeps the recurrent states and last actions of E environments."""

    def __init__(self, policy: Policy, spec: EnvironmentSpec, num_envs: int, env_id: int, greedy: bool):
        self._act = tf.function(policy.act_greedy if greedy else policy.act, autograph=False)
        self._state: Nest = policy.initial_state(num_envs)
        self._prev_action = tf.constant(spec.action.zeros(num_envs))
        self._env_ids = tf.fill([num_envs], env_id)

    def __call__(self, env: EnvOutput) -> np.ndarray:
        """Actions `[E, ...]` for the environments' outputs, `[E, ...]`."""
        env = tf.nest.map_structure(tf.constant, env)
        output, self._state = self._act(self._prev_action, env, self._state, self._env_ids)
        self._prev_action = output.action
        return output.action.numpy()
