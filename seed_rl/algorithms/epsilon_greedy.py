"""Policies that take the action of the highest value or, with a probability of epsilon, a random one."""

import abc
from typing import Any

import tensorflow as tf

from seed_rl.algorithms.policy import Policy
from seed_rl.networks.q_network import QNetwork
from seed_rl.ops.exploration import epsilon_greedy
from seed_rl.types import AgentOutput, EnvOutput, Nest


class EpsilonGreedyPolicy(Policy):
    """A policy for one discrete action.

    `AgentOutput.info` holds `q_values` `[B, A]`, on the scale on which they are learned. The network and the
    exploration, from which a subclass computes `epsilons`, belong to the algorithm.
    """

    def __init__(self, network: QNetwork, exploration: Any, action_dtype: str):
        super().__init__()
        self._network, self._exploration, self._action_dtype = network, exploration, action_dtype

    def initial_state(self, batch_size: int | tf.Tensor) -> Nest:
        """The network's state; an empty tuple if it has none."""
        return self._network.trunk.initial_state(batch_size)

    def values(
        self, prev_action: tf.Tensor, env: EnvOutput, state: Nest, env_ids: tf.Tensor | None
    ) -> tuple[tf.Tensor, Nest]:
        """Q-values float32 `[B, A]`, by default the network's only outputs, and the next state.

        The arguments are those of `Policy.act`. Without `env_ids`, there is no exploration.
        """
        del env_ids
        features, state = self._network.features(prev_action, env, state)
        return self._network.outputs(features)[..., 0], state

    @abc.abstractmethod
    def epsilons(self, env_ids: tf.Tensor) -> tf.Tensor:
        """The probability of a random action in each environment, float32 `[B]`, by their ids int32 `[B]`."""

    def act(
        self, prev_action: tf.Tensor, env: EnvOutput, state: Nest, env_ids: tf.Tensor
    ) -> tuple[AgentOutput, Nest]:
        """Takes the best action or, with the environment's epsilon, a random one; see `Policy.act`."""
        q_values, state = self._masked_values(prev_action, env, state, env_ids)
        allowed = self._network.mask.of(env.observation)
        return self._answer(epsilon_greedy(q_values, self.epsilons(env_ids), allowed), q_values), state

    def act_greedy(
        self, prev_action: tf.Tensor, env: EnvOutput, state: Nest, env_ids: tf.Tensor
    ) -> tuple[AgentOutput, Nest]:
        """Takes the best action; otherwise like `act`."""
        del env_ids
        q_values, state = self._masked_values(prev_action, env, state, None)
        return self._answer(tf.argmax(q_values, -1), q_values), state

    def _masked_values(
        self, prev_action: tf.Tensor, env: EnvOutput, state: Nest, env_ids: tf.Tensor | None
    ) -> tuple[tf.Tensor, Nest]:
        q_values, state = self.values(prev_action, env, state, env_ids)
        return self._network.mask.apply(q_values, env.observation), state

    def _answer(self, action: tf.Tensor, q_values: tf.Tensor) -> AgentOutput:
        return AgentOutput(tf.cast(action, self._action_dtype), {"q_values": q_values})
