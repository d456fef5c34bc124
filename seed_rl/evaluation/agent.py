"""A trained policy that acts on an environment's own observations, one environment or several at a time."""

from typing import Any

import gymnasium
import numpy as np

from seed_rl.algorithms.policy import Policy
from seed_rl.environments.actions import action_decoder
from seed_rl.environments.base import EnvironmentConfig
from seed_rl.environments.batched import empty_output
from seed_rl.environments.failures import Fault
from seed_rl.environments.reading import leaf_readers
from seed_rl.environments.specs import Spaces, environment_spec
from seed_rl.evaluation.player import Choice
from seed_rl.types import flatten_like


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
        self._readers = leaf_readers(env.observation_space)
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
