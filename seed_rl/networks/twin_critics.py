"""Two Q-functions with weights of their own: observations and actions in, two values out."""

import dataclasses
from typing import Any

import keras
import tensorflow as tf

from seed_rl.networks.layers import track_each
from seed_rl.networks.networks_config import NetworkConfig
from seed_rl.networks.trunk import Trunk
from seed_rl.ops.distributions import bounds_of
from seed_rl.types import EnvironmentSpec, EnvOutput, Nest

# Number of critics: the smaller of two values is less of an overestimate (Fujimoto et al., "TD3", 2018).
TWINS = 2


class TwinCritics(keras.layers.Layer):
    """The trunk without its MLP, then two MLPs of `config.mlp_units`.

    So a vector goes straight into both MLPs, and the two share only its scaling; the torso of an image is
    shared. The action is an input of the MLPs if it is a Box, scaled to [-1, 1] by its bounds; if it is
    discrete, each MLP outputs a value for every action.
    """

    def __init__(self, config: NetworkConfig, env_spec: EnvironmentSpec):
        super().__init__()
        self.trunk = Trunk(dataclasses.replace(config, mlp_sizes=""), env_spec)
        self._action = env_spec.action
        self._bounds = None if self._action.is_discrete else bounds_of(self._action)
        outputs = self._action.num_values[0] if self._action.is_discrete else 1
        hidden = (TwinDense(n, config.initializer, config.mlp_activation) for n in config.mlp_units)
        self._hidden = track_each(self, hidden, "hidden")
        # In float32: bfloat16 has three digits, too few for a Q-value.
        self._output = TwinDense(outputs, "glorot_uniform", dtype="float32")
        prev_action, env, state = self.trunk.example()
        self.values(self.features(prev_action, env, state), prev_action)
        self.built = True

    def features(self, prev_action: tf.Tensor, env: EnvOutput, state: Nest) -> tf.Tensor:
        """Features of the observations, the input of both MLPs: float32 `[T, B, F]`; see `Trunk.unroll`."""
        return self.trunk.unroll(prev_action, env, state)[0]

    def values(self, features: tf.Tensor, action: tf.Tensor) -> tf.Tensor:
        """Q-values of both critics: float32 `[2, T, B]`, or `[2, T, B, A]` of all A actions if discrete.

        Features are `[T, B, F]`; T must be known when this is traced. The action, `[T, B, *shape]` in the
        environment's own units, is not used if actions are discrete.
        """
        steps = features.shape[0]
        if self._bounds is not None:
            flat = tf.reshape(action, [steps, -1, self._action.size])
            scaled = (flat - self._bounds.middle) / self._bounds.half_range
            features = tf.concat([features, scaled], -1)
        outputs = TWINS * [tf.reshape(features, [-1, features.shape[-1]])]
        for layer in (*self._hidden, self._output):
            outputs = layer(outputs)
        values = tf.stack([tf.reshape(x, [steps, -1, x.shape[-1]]) for x in outputs])
        return values if self._action.is_discrete else values[..., 0]


class TwinDense(keras.layers.Layer):
    """Two fully connected layers with weights of their own, which are one variable.

    So the optimizer has half as many variables to update. On a CPU, two products of matrices are faster than
    one of stacked matrices.
    """

    def __init__(self, units: int, initializer: str, activation: str = "linear", **kwargs: Any):
        super().__init__(**kwargs)
        self._units, self._initializer = units, initializer
        self._activation = keras.activations.get(activation)

    def build(self, input_shapes: Any) -> None:
        """Creates the weights; each kernel is drawn as that of a layer of its own."""
        # An initializer returns the same numbers whenever it is called.
        draws = [keras.initializers.get(self._initializer) for _ in range(TWINS)]

        def both(shape: tuple[int, ...], dtype: Any = None) -> tf.Tensor:
            return tf.stack([draw(shape[1:], dtype=dtype) for draw in draws])

        self.kernel = self.add_weight(
            shape=(TWINS, input_shapes[0][-1], self._units), initializer=both, name="kernel"
        )
        self.bias = self.add_weight(shape=(TWINS, self._units), initializer="zeros", name="bias")

    def call(self, inputs: list[tf.Tensor]) -> list[tf.Tensor]:
        """Maps two inputs `[N, F]`, one for each layer, to two outputs `[N, units]`."""
        weights = (tf.unstack(tf.convert_to_tensor(x)) for x in (self.kernel, self.bias))
        layers = zip(inputs, *weights, strict=True)
        return [self._activation(tf.nn.bias_add(tf.matmul(x, kernel), bias)) for x, kernel, bias in layers]
