"""SAC's policy: it samples from the actor's distribution, and starts uniformly random."""

import tensorflow as tf

from seed_rl.algorithms.policy import Policy
from seed_rl.algorithms.sac.actions import Actions
from seed_rl.networks.actor_critic import PolicyNetwork
from seed_rl.types import AgentOutput, EnvOutput, Nest


class SACPolicy(Policy):
    """Samples actions in training environments, and takes the mode in those that only evaluate.

    `AgentOutput.info` holds `policy_parameters` `[B, P]`; the loss needs none of it.
    """

    def __init__(
        self, network: PolicyNetwork, actions: Actions, is_random: tf.Variable, num_training_envs: int
    ):
        """The variables belong to the algorithm.

        `is_random` is 1 while training environments take uniformly random actions, then 0. Environments from
        `num_training_envs` on only evaluate.
        """
        super().__init__()
        self._network, self._actions, self._is_random = network, actions, is_random
        self._num_training_envs = num_training_envs

    def initial_state(self, batch_size: int | tf.Tensor) -> Nest:
        """The state of frame stacking; an empty tuple if there is none."""
        return self._network.trunk.initial_state(batch_size)

    def act(
        self, prev_action: tf.Tensor, env: EnvOutput, state: Nest, env_ids: tf.Tensor
    ) -> tuple[AgentOutput, Nest]:
        """Samples, or takes the mode in environments that only evaluate; see `Policy.act`."""
        parameters, state = self._act(prev_action, env, state)
        distribution = self._actions.distribution
        sampled, best = distribution.sample(parameters), distribution.mode(parameters)
        anything = self._actions.anything(parameters, self._network.mask.of(env.observation))
        action = tf.where(self._is_random > 0.0, anything, sampled)
        evaluates = env_ids >= self._num_training_envs
        evaluates = tf.reshape(evaluates, [-1] + [1] * (len(action.shape) - 1))
        return AgentOutput(tf.where(evaluates, best, action), {"policy_parameters": parameters}), state

    def act_greedy(
        self, prev_action: tf.Tensor, env: EnvOutput, state: Nest, env_ids: tf.Tensor
    ) -> tuple[AgentOutput, Nest]:
        """Takes the mode; otherwise like `act`."""
        del env_ids
        parameters, state = self._act(prev_action, env, state)
        best = self._actions.distribution.mode(parameters)
        return AgentOutput(best, {"policy_parameters": parameters}), state

    def _act(self, prev_action: tf.Tensor, env: EnvOutput, state: Nest) -> tuple[tf.Tensor, Nest]:
        """The distribution's parameters `[B, P]` and the next state."""
        prev_action, env = tf.nest.map_structure(lambda x: x[tf.newaxis], (prev_action, env))
        parameters, state = self._network.unroll(prev_action, env, state)
        return parameters[0], state
