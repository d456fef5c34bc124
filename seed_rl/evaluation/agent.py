"""Acting by a trained policy: on an environment's own observations, and through whole episodes."""

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import tensorflow as tf

from seed_rl.algorithms.policy import Policy
from seed_rl.environments.actions import action_decoder
from seed_rl.environments.base import EnvironmentConfig, Suite
from seed_rl.environments.batched import empty_output
from seed_rl.environments.failures import FailureConfig, Fault
from seed_rl.environments.observations import observation_leaves
from seed_rl.environments.specs import Spaces, environment_spec
from seed_rl.evaluation.episodes import PlayedEpisode, Share
from seed_rl.types import EnvironmentSpec, EnvOutput, Nest, flatten_like


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


class Agent:
    """Chooses actions, and keeps what the policy remembers: recurrent states, stacked frames, last actions.

    Attributes:
      observation_space: Gymnasium's, of one environment.
      action_space: likewise.
      num_envs: N, the environments of a batch; None for one environment without a batch axis.
    """

    def __init__(
        self,
        policy: Policy,
        env: gymnasium.Env | Spaces,
        config: EnvironmentConfig,
        env_id: int,
        num_envs: int | None = None,
        greedy: bool = False,
    ):
        """An agent for environments with the spaces of `env`; the policy gets `env_id` for all of them."""
        spec = environment_spec(env, config)
        self.observation_space, self.action_space, self.num_envs = (
            env.observation_space,
            env.action_space,
            num_envs,
        )
        self._size = num_envs or 1
        self._readers = observation_leaves(env.observation_space)
        self._decode = action_decoder(env.action_space)
        self._env = empty_output(spec, self._size)
        self._buffers = flatten_like(spec.observation, self._env.observation)
        self._choose = Choice(policy, spec, self._size, env_id, greedy)
        self._begins = True

    def reset(self) -> None:
        """Forgets everything: the next observations are the first of their episodes."""
        self._begins = True  # The policy itself starts afresh there.

    def act(self, observation: Any, reward: Any = 0.0, done: Any = False) -> Any:
        """Chooses an action, or a batch of them.

        Args:
          observation: as the environment returns it; with `num_envs`, `[N, ...]` as vector environments do.
          reward: of the step that led to the observation, `[N]` in a batch; only networks with
            `--use_last_action_and_reward` have it as an input.
          done: whether the observation is the first of an episode, `[N]` in a batch; after `reset` it is.

        Returns:
          An action for `env.step`, or an array of actions `[N, ...]`.

        Raises:
          ValueError: the observation does not fit the observation space.
        """
        env, size = self._env, self.num_envs
        try:
            arrays = [
                read([observation]) if size is None else read.of_batch(observation, size)
                for read in self._readers
            ]
        except Fault as fault:
            raise ValueError(f"act() got {str(fault).removeprefix('returned ')}.") from None
        for buffer, array in zip(self._buffers, arrays, strict=True):
            buffer[:] = array
        env.reward[:], env.done[:] = reward, self._begins or done
        self._begins = False
        actions = self._decode(self._choose(env))
        return actions[0] if self.num_envs is None else np.stack(actions)
