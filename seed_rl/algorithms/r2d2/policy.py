"""R2D2's policy: epsilon-greedy."""

import numpy as np
import tensorflow as tf

from seed_rl.algorithms.epsilon_greedy import EpsilonGreedyPolicy
from seed_rl.networks.q_network import QNetwork


class R2D2Policy(EpsilonGreedyPolicy):
    """Takes the action with the highest Q-value or, with its environment's epsilon, a random one.

    An unroll's initial priority is computed from the Q-values in `AgentOutput.info`, which are on the
    rescaled scale; replay does not keep them.
    """

    def __init__(self, network: QNetwork, epsilons: np.ndarray, action_dtype: str):
        """`epsilons`: float32, one for each training environment, by id, then one shared by all others."""
        super().__init__(network, action_dtype, name="r2d2_policy")
        self._epsilons = epsilons

    def epsilons(self, env_ids: tf.Tensor) -> tf.Tensor:
        """Each environment's own epsilon."""
        return tf.gather(self._epsilons, tf.minimum(env_ids, len(self._epsilons) - 1))
