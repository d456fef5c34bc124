"""R2D2's policy: epsilon-greedy."""

import numpy as np
import tensorflow as tf

from seed_rl.algorithms.policy import Policy
from seed_rl.networks.dueling import DuelingNetwork
from seed_rl.ops.exploration import epsilon_greedy
from seed_rl.types import AgentOutput, EnvOutput, Nest


class R2D2Policy(Policy):
    """Takes the action with the highest Q-value or, with its environment's epsilon, a random one.

    `AgentOutput.info` holds `q_values` `[B, A]`, on the rescaled scale on which they are learned. An unroll's
    initial priority is computed from them; replay does not keep them.
    """

    def __init__(self, network: DuelingNetwork, epsilons: np.ndarray, action_dtype: str):
        """Acts with a network whose variables belong to the algorithm.

        Args:
          network: computes Q-values.
          epsilons: float32, one for each training environment, by id, then one shared by all others.
          action_dtype: dtype of the environment's actions.
        """
        super().__init__(name="r2d2_policy")
        self._network, self._epsilons, self._action_dtype = network, epsilons, action_dtype

    def initial_state(self, batch_size: int | tf.Tensor) -> Nest:
        """The network's recurrent state; an empty tuple if it has none."""
        return self._network.trunk.initial_state(batch_size)

    def act(
        self, prev_action: tf.Tensor, env: EnvOutput, state: Nest, env_ids: tf.Tensor
    ) -> tuple[AgentOutput, Nest]:
        """Takes the best action or, with the environment's epsilon, a random one; see `Policy.act`."""
        q_values, state = self._act(prev_action, env, state)
        epsilons = tf.gather(self._epsilons, tf.minimum(env_ids, len(self._epsilons) - 1))
        return self._answer(epsilon_greedy(q_values, epsilons), q_values), state

    def act_greedy(
        self, prev_action: tf.Tensor, env: EnvOutput, state: Nest, env_ids: tf.Tensor
    ) -> tuple[AgentOutput, Nest]:
        """Takes the best action; otherwise like `act`."""
        del env_ids
        q_values, state = self._act(prev_action, env, state)
        return self._answer(tf.argmax(q_values, -1), q_values), state

    def _act(self, prev_action: tf.Tensor, env: EnvOutput, state: Nest) -> tuple[tf.Tensor, Nest]:
        """Q-values `[B, A]` and the next state."""
        prev_action, env = tf.nest.map_structure(lambda x: x[tf.newaxis], (prev_action, env))
        q_values, state = self._network.unroll(prev_action, env, state)
        return q_values[0], state

    def _answer(self, action: tf.Tensor, q_values: tf.Tensor) -> AgentOutput:
        return AgentOutput(tf.cast(action, self._action_dtype), {"q_values": q_values})
