"""PQN's policy: epsilon-greedy, with one epsilon for all environments, which falls."""

import tensorflow as tf

from seed_rl.algorithms.epsilon_greedy import EpsilonGreedyPolicy
from seed_rl.networks.q_network import QNetwork
from seed_rl.types import EnvOutput, Nest


class PQNPolicy(EpsilonGreedyPolicy):
    """Takes the action of the highest value or, with a probability that falls over the run, a random one."""

    def __init__(self, network: QNetwork, epsilon: tf.Variable, action_dtype: str):
        """Acts with a network and an epsilon that belong to the algorithm."""
        super().__init__(action_dtype, name="pqn_policy")
        self._network, self._epsilon = network, epsilon

    def initial_state(self, batch_size: int | tf.Tensor) -> Nest:
        """The network's state; an empty tuple if it has none."""
        return self._network.trunk.initial_state(batch_size)

    def values(
        self, prev_action: tf.Tensor, env: EnvOutput, state: Nest, env_ids: tf.Tensor | None
    ) -> tuple[tf.Tensor, Nest]:
        """Q-values and the next state; see `EpsilonGreedyPolicy.values`."""
        del env_ids
        features, state = self._network.features(prev_action, env, state)
        return self._network.outputs(features)[..., 0], state

    def epsilons(self, env_ids: tf.Tensor) -> tf.Tensor:
        """The same for all environments: `[B]`."""
        return tf.fill(tf.shape(env_ids), tf.convert_to_tensor(self._epsilon))
