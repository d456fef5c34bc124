"""PQN's policy: epsilon-greedy, with one epsilon for all environments, which falls."""

import tensorflow as tf

from seed_rl.algorithms.epsilon_greedy import EpsilonGreedyPolicy
from seed_rl.networks.q_network import QNetwork


class PQNPolicy(EpsilonGreedyPolicy):
    """Takes the action of the highest value or, with a probability that falls over the run, a random one."""

    def __init__(self, network: QNetwork, epsilon: tf.Variable, action_dtype: str):
        """Acts with a network and an epsilon that belong to the algorithm."""
        super().__init__(network, action_dtype, name="pqn_policy")
        self._epsilon = epsilon

    def epsilons(self, env_ids: tf.Tensor) -> tf.Tensor:
        """The same for all environments: `[B]`."""
        return tf.fill(tf.shape(env_ids), tf.convert_to_tensor(self._epsilon))
