"""DQN's policy: epsilon-greedy, or greedy with noise in the network."""

import tensorflow as tf

from seed_rl.algorithms.dqn.exploration import Exploration
from seed_rl.algorithms.dqn.returns import Returns
from seed_rl.algorithms.epsilon_greedy import EpsilonGreedyPolicy
from seed_rl.networks.q_network import QNetwork
from seed_rl.types import EnvOutput, Nest


class DQNPolicy(EpsilonGreedyPolicy):
    """Takes the action of the highest mean return or, with its environment's epsilon, a random one.

    Noise is drawn for each batch of training environments. Those that evaluate act without.
    """

    def __init__(self, network: QNetwork, returns: Returns, exploration: Exploration, action_dtype: str):
        """Acts with a network whose variables belong to the algorithm.

        Args:
          network: the network that learns.
          returns: what its outputs mean.
          exploration: how much environments explore.
          action_dtype: dtype of the environment's actions.
        """
        super().__init__(action_dtype, name="dqn_policy")
        self._network, self._returns, self._exploration = network, returns, exploration

    def initial_state(self, batch_size: int | tf.Tensor) -> Nest:
        """The state of frame stacking; an empty tuple if nothing is stacked."""
        return self._network.trunk.initial_state(batch_size)

    def values(
        self, prev_action: tf.Tensor, env: EnvOutput, state: Nest, env_ids: tf.Tensor | None
    ) -> tuple[tf.Tensor, Nest]:
        """The values of actions and the next state."""
        features, state = self._network.features(prev_action, env, state)
        values = self._returns.q_values(self._network, features, noisy=False)
        if env_ids is None or not self._exploration.noisy:
            return values, state
        noisy_values = self._returns.q_values(self._network, features, noisy=True)
        return tf.where(self._exploration.trains(env_ids)[:, tf.newaxis], noisy_values, values), state

    def epsilons(self, env_ids: tf.Tensor) -> tf.Tensor:
        """Each environment's epsilon."""
        return self._exploration.epsilons(env_ids)
