"""Networks of policies: observations, last action and reward in; the policy's parameters out."""

from typing import NamedTuple

import keras
import tensorflow as tf

from seed_rl.networks.action_mask import ActionMask
from seed_rl.networks.networks_config import NetworkConfig
from seed_rl.networks.trunk import Trunk
from seed_rl.types import EnvironmentSpec, EnvOutput, Nest


class ActorCriticOutput(NamedTuple):
    """Outputs of the heads, float32: `policy_parameters` `[T, B, P]` and `baseline` `[T, B]` (the value)."""

    policy_parameters: tf.Tensor
    baseline: tf.Tensor


class ActorCritic(keras.layers.Layer):
    """The trunk, whose state is the network's state, and two linear heads (IMPALA, 2018, figure 3)."""

    def __init__(self, config: NetworkConfig, env_spec: EnvironmentSpec, num_policy_parameters: int):
        super().__init__()
        self.trunk, self._mask = Trunk(config, env_spec), ActionMask(env_spec)
        # Small weights start near the distribution whose parameters are zeros, in every state.
        small = keras.initializers.Orthogonal(0.01)
        # The last layers always compute in float32: bfloat16 has three digits, too few for a value.
        self._policy_head = keras.layers.Dense(
            num_policy_parameters, kernel_initializer=small, dtype="float32"
        )
        self._baseline_head = keras.layers.Dense(1, kernel_initializer="orthogonal", dtype="float32")
        self.unroll(*self.trunk.example())
        self.built = True

    def unroll(self, prev_action: tf.Tensor, env: EnvOutput, state: Nest) -> tuple[ActorCriticOutput, Nest]:
        """The outputs at each step, and the state after the last; see `Trunk.unroll`."""
        features, state = self.trunk.unroll(prev_action, env, state)
        baseline = tf.squeeze(self._baseline_head(features), -1)
        parameters = self._mask.apply(self._policy_head(features), env.observation)
        return ActorCriticOutput(parameters, baseline), state


class PolicyNetwork(keras.layers.Layer):
    """The trunk, whose state is the network's state, and one linear head."""

    def __init__(self, config: NetworkConfig, env_spec: EnvironmentSpec, num_policy_parameters: int):
        super().__init__()
        self.trunk, self.mask = Trunk(config, env_spec), ActionMask(env_spec)
        small = keras.initializers.Orthogonal(0.01)
        self._head = keras.layers.Dense(num_policy_parameters, kernel_initializer=small, dtype="float32")
        self.unroll(*self.trunk.example())
        self.built = True

    def unroll(self, prev_action: tf.Tensor, env: EnvOutput, state: Nest) -> tuple[tf.Tensor, Nest]:
        """Parameters float32 `[T, B, P]` at each step, and the state after the last; see `Trunk.unroll`."""
        features, state = self.trunk.unroll(prev_action, env, state)
        return self.mask.apply(self._head(features), env.observation), state
