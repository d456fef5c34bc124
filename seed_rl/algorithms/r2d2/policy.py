"""R2D2's policy: epsilon-greedy."""

import numpy as np
import tensorflow as tf

from seed_rl.algorithms.epsilon_greedy import EpsilonGreedyPolicy
from seed_rl.networks.q_network import QNetwork
from seed_rl.types import EnvOutput, Nest


class R2D2Policy(EpsilonGreedyPolicy):
    """Takes the action with the highest Q-value or, with its environment's epsilon, a random one.

    An unroll's initial priority is computed from the Q-values in `AgentOutput.info`, which are on the
    rescaled scale; replay does not keep them.
    """

    def __init__(self, network: QNetwork, epsilons: np.ndarray, action_dtype: str):
        """Acts with a network whose variables belong to the algorithm.

        Args:
          network: computes Q-values.
          epsilons: float32, one for each training environment, by id, then one shared by all others.
          action_dtype: dtype of the environment's actions.
        """
        super().__init__(action_dtype, name="r2d2_policy")
        self._network, self._epsilons = network, epsilons

    def initial_state(self, batch_size: int | tf.Tensor) -> Nest:
        """The network's recurrent state; an empty tuple if it has none."""
        return self._network.trunk.initial_state(batch_size)

    def values(
        self, prev_action: tf.Tensor, env: EnvOutput, state: Nest, env_ids: tf.Tensor | None
    ) -> tuple[tf.Tensor, Nest]:
        """The network's Q-values and the next state."""
        del env_ids
        features, state = self._network.features(prev_action, env, state)
        return self._network.outputs(features)[..., 0], state

    def epsilons(self, env_ids: tf.Tensor) -> tf.Tensor:
        """Each environment's own epsilon."""
        return tf.gather(self._epsilons, tf.minimum(env_ids, len(self._epsilons) - 1))
