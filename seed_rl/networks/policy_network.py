"""A network that only acts: observations, last action and reward in; the parameters of a policy out."""

import keras
import tensorflow as tf

from seed_rl.networks.config import NetworkConfig
from seed_rl.networks.trunk import Trunk
from seed_rl.types import EnvironmentSpec, EnvOutput, Nest


class PolicyNetwork(keras.layers.Layer):
    """The trunk, whose state is the network's state, and one linear head."""

    def __init__(self, config: NetworkConfig, env_spec: EnvironmentSpec, num_policy_parameters: int):
        """Creates the network with all of its variables.

        Raises:
          ValueError: the settings do not fit the observation (see `Encoder`).
        """
        super().__init__()
        self.trunk = Trunk(config, env_spec)
        # Small weights start near the distribution whose parameters are zeros, in every state.
        small = keras.initializers.Orthogonal(0.01)
        self._head = keras.layers.Dense(num_policy_parameters, kernel_initializer=small, dtype="float32")
        self.unroll(*self.trunk.example())
        self.built = True

    def unroll(self, prev_action: tf.Tensor, env: EnvOutput, state: Nest) -> tuple[tf.Tensor, Nest]:
        """Parameters float32 `[T, B, P]` at each step, and the state after the last; see `Trunk.unroll`."""
        features, state = self.trunk.unroll(prev_action, env, state)
        return self._head(features), state
