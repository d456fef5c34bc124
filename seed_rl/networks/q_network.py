"""Q-networks: dueling or not, noisy or not, with one or several outputs for each action."""

import math
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from seed_rl.networks.action_mask import ActionMask
from seed_rl.networks.layers import NoisyDense, dense
from seed_rl.networks.networks_config import NetworkConfig
from seed_rl.networks.trunk import Trunk
from seed_rl.types import EnvironmentSpec, EnvOutput, Nest

# n of IQN's embedding (Dabney et al., 2018, equation 4).
NUM_COSINES = 64


class Head(NamedTuple):
    """Settings of the heads, which follow the trunk.

    Attributes:
      units: units of the hidden layer of each stream; 0: none.
      dueling: whether there are two streams (Wang et al., 2016) and not one.
      num_outputs: K, outputs for each action: 1 for its value, or one for each atom of a distribution.
      implicit: whether outputs are quantiles of returns at fractions that each call gives (IQN).
      noisy_sigma: size of the noise of noisy layers at the start; None: layers are not noisy.
      start_at_zero: whether all outputs start at 0.
    """

    units: int = 0
    dueling: bool = False
    num_outputs: int = 1
    implicit: bool = False
    noisy_sigma: float | None = None
    start_at_zero: bool = False


class QNetwork(keras.layers.Layer):
    """The trunk and, on its features, one stream or the two of a dueling network.

    `Q(x, a) = V(x) + A(x, a) - mean over b of A(x, b)` (Wang et al., 2016, equation 9), for each output
    separately (Hessel et al., 2018, "The integrated agent").

    Attributes:
      trunk: what comes before the streams.
      mask: the environment's action mask. `unroll` applies it, `outputs` does not.
    """

    def __init__(self, config: NetworkConfig, env_spec: EnvironmentSpec, num_actions: int, head: Head):
        super().__init__()
        self.trunk, self.mask = Trunk(config, env_spec), ActionMask(env_spec)
        self._num_actions, self._head = num_actions, head
        features, _ = self.trunk.unroll(*self.trunk.example())
        if head.implicit:
            self._embedding = keras.layers.Dense(features.shape[-1], activation="relu")
        if head.dueling:
            self._value_hidden, self._value = self._stream(config, 1)
        self._advantage_hidden, self._advantage = self._stream(config, num_actions)
        self.outputs(features[0], tf.zeros([1, 1]) if head.implicit else None)
        self.built = True

    def _stream(self, config: NetworkConfig, num_values: int) -> tuple[Any, Any]:
        """A hidden layer with a ReLU, None if it has no units, and a linear one.

        The linear one always computes in float32: bfloat16 has three digits, too few for a Q-value.
        """
        units, outputs, sigma = self._head.units, num_values * self._head.num_outputs, self._head.noisy_sigma
        last = "zeros" if self._head.start_at_zero else None
        if sigma is not None:
            hidden = NoisyDense(units, sigma, "relu", layer_norm=config.layer_norm) if units else None
            return hidden, NoisyDense(outputs, sigma, initializer=last, dtype="float32")
        hidden = dense(config, units) if units else None
        last = last or "glorot_uniform"
        return hidden, keras.layers.Dense(outputs, kernel_initializer=last, dtype="float32")

    def unroll(self, prev_action: tf.Tensor, env: EnvOutput, state: Nest) -> tuple[tf.Tensor, Nest]:
        """Values float32 `[T, B, A]` of a head with one output, and the last state; see `Trunk.unroll`."""
        features, state = self.trunk.unroll(prev_action, env, state)
        values = self._outputs(tf.reshape(features, [-1, features.shape[-1]]), noisy=False)
        values = tf.reshape(values, [features.shape[0], -1, self._num_actions])
        return self.mask.apply(values, env.observation), state

    def features(self, prev_action: tf.Tensor, env: EnvOutput, state: Nest) -> tuple[tf.Tensor, Nest]:
        """The trunk's features at one step `[N, ...]`, float32 `[N, F]`, and the next state."""
        prev_action, env = tf.nest.map_structure(lambda x: x[tf.newaxis], (prev_action, env))
        features, state = self.trunk.unroll(prev_action, env, state)
        return features[0], state

    def outputs(
        self, features: tf.Tensor, fractions: tf.Tensor | None = None, noisy: bool = False
    ) -> tf.Tensor:
        """Outputs of the heads for each action.

        Args:
          features: float32 `[N, F]`.
          fractions: `[N, K]`, the fractions tau that quantiles are wanted at, if the head is implicit.
          noisy: whether noisy layers draw noise; otherwise they use their means.

        Returns:
          float32 `[N, A, K]`.
        """
        if fractions is None:
            return self._outputs(features, noisy)
        num_fractions = fractions.shape[1]
        features = features[:, tf.newaxis] * tf.cast(self._embedded(fractions), features.dtype)
        outputs = self._outputs(tf.reshape(features, [-1, features.shape[-1]]), noisy)
        by_fraction = tf.reshape(outputs, [-1, num_fractions, self._num_actions])
        return tf.transpose(by_fraction, [0, 2, 1])

    def _embedded(self, fractions: tf.Tensor) -> tf.Tensor:
        """`relu(sum_i cos(pi i tau) w_ij + b_j)` (Dabney et al., 2018, equation 4): `[N, K, F]`."""
        cosines = tf.cos(math.pi * tf.range(NUM_COSINES, dtype=tf.float32) * fractions[..., tf.newaxis])
        return self._embedding(cosines)

    def _outputs(self, features: tf.Tensor, noisy: bool) -> tf.Tensor:
        """From features `[N, F]` to `[N, A, num_outputs]`."""
        shape = [-1, self._num_actions, self._head.num_outputs]
        advantage = tf.reshape(_run(self._advantage_hidden, self._advantage, features, noisy), shape)
        if not self._head.dueling:
            return advantage
        value = _run(self._value_hidden, self._value, features, noisy)
        return value[:, tf.newaxis] + advantage - tf.reduce_mean(advantage, 1, keepdims=True)


def _run(hidden: Any, last: Any, features: tf.Tensor, noisy: bool) -> tf.Tensor:
    """Applies the two layers of a stream, with noise if they are noisy ones and the call requests it."""
    for layer in (hidden, last):
        if layer is not None:
            features = layer(features, noisy=noisy) if isinstance(layer, NoisyDense) else layer(features)
    return features
