"""Two Q-functions with weights of their own: observations and actions in, two values out."""

import dataclasses
from typing import Any

import keras
import tensorflow as tf

from seed_rl.networks.layers import track_each
from seed_rl.networks.networks_config import NetworkConfig
from seed_rl.networks.trunk import Trunk
from seed_rl.ops.distributions import bounds_of
from seed_rl.ops.means import mean_over_replicas
from seed_rl.types import EnvironmentSpec, EnvOutput, Nest

# Number of critics: the smaller of two values is less of an overestimate (Fujimoto et al., "TD3", 2018).
TWINS = 2

# Multipliers and offsets `[2, F]` of two inputs `[N, F]`.
Affine = tuple[tf.Tensor, tf.Tensor]


class TwinCritics(keras.layers.Layer):
    """The trunk without its MLP, then two MLPs of `config.mlp_units`.

    So a vector goes straight into both MLPs, and the two share only its scaling; the torso of an image is
    shared. The action is an input of the MLPs if it is a Box, scaled to [-1, 1] by its bounds; if it is
    discrete, each MLP outputs a value for every action.

    With `batch_norm`, the input of each fully connected layer is normalized, as in CrossQ (Bhatt et al.,
    2024, section 4): see `TwinBatchRenorm`.
    """

    def __init__(self, config: NetworkConfig, env_spec: EnvironmentSpec, batch_norm: bool = False):
        super().__init__()
        self.trunk = Trunk(dataclasses.replace(config, mlp_sizes=""), env_spec)
        self._action = env_spec.action
        self._bounds = None if self._action.is_discrete else bounds_of(self._action)
        outputs = self._action.num_values[0] if self._action.is_discrete else 1
        hidden = (TwinDense(n, config.initializer, config.mlp_activation) for n in config.mlp_units)
        self._hidden = track_each(self, hidden, "hidden")
        norms = (TwinBatchRenorm() for _ in range(len(self._hidden) + 1) if batch_norm)
        self._norms = track_each(self, norms, "norm")
        # In float32: bfloat16 has three digits, too few for a Q-value.
        self._output = TwinDense(outputs, "glorot_uniform", dtype="float32")
        prev_action, env, state = self.trunk.example()
        self.values(self.features(prev_action, env, state), prev_action)
        self.built = True

    def features(self, prev_action: tf.Tensor, env: EnvOutput, state: Nest) -> tf.Tensor:
        """Features of the observations, the input of both MLPs: float32 `[T, B, F]`; see `Trunk.unroll`."""
        return self.trunk.unroll(prev_action, env, state)[0]

    def values(self, features: tf.Tensor, action: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Q-values of both critics: float32 `[2, T, B]`, or `[2, T, B, A]` of all A actions if discrete.

        Features are `[T, B, F]`; T must be known when this is traced. The action, `[T, B, *shape]` in the
        environment's own units, is not used if actions are discrete. In `training`, the batch is normalized
        by its own statistics, which update the running ones; otherwise by these.
        """
        steps = features.shape[0]
        if self._bounds is not None:
            flat = tf.reshape(action, [steps, -1, self._action.size])
            scaled = (flat - self._bounds.middle) / self._bounds.half_range
            features = tf.concat([features, scaled], -1)
        outputs = TWINS * [tf.reshape(features, [-1, features.shape[-1]])]
        for i, layer in enumerate((*self._hidden, self._output)):
            normalized = self._norms[i](outputs, training=training) if self._norms else None
            outputs = layer(outputs, normalized)
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

    def call(self, inputs: list[tf.Tensor], normalized: Affine | None = None) -> list[tf.Tensor]:
        """Maps two inputs `[N, F]`, one for each layer, to two outputs `[N, units]`.

        With an affine map of the inputs, it is applied to the weights, of which there are fewer:
        `(x * multiplier + offset) W = x (multiplier * W) + offset W`.
        """
        kernel, bias = (tf.convert_to_tensor(x) for x in (self.kernel, self.bias))
        if normalized is not None:
            multiplier, offset = (tf.cast(x, kernel.dtype) for x in normalized)
            bias += tf.reduce_sum(offset[..., tf.newaxis] * kernel, 1)
            kernel *= multiplier[..., tf.newaxis]
        layers = zip(inputs, tf.unstack(kernel), tf.unstack(bias), strict=True)
        return [self._activation(tf.nn.bias_add(tf.matmul(x, kernel), bias)) for x, kernel, bias in layers]


class TwinBatchRenorm(keras.layers.Layer):
    """Batch renormalization of two inputs, each by statistics of its own (Ioffe, 2017, arXiv:1702.03275).

    In training, with the mean and standard deviation of the batch, `(x - mean_B) / sigma_B * r + d`, where
    `r = sigma_B / sigma` and `d = (mean_B - mean) / sigma` are limited and get no gradient (algorithm 1);
    else `(x - mean) / sigma`. Then an affine map with learned weights. For the first updates, r is 1 and d
    is 0. The momentum, the limits and the length of that warm-up are those of CrossQ's code (Bhatt et al.,
    2024). The batch is the whole one, also when each of several training devices has a part of it.
    """

    MOMENTUM, EPSILON, MOST_R, MOST_D, WARM_UP_UPDATES = 0.99, 1e-3, 3.0, 5.0, 100_000

    def __init__(self) -> None:
        super().__init__(dtype="float32")

    def build(self, input_shapes: Any) -> None:
        """Creates the weights and the running statistics."""
        shape = (TWINS, input_shapes[0][-1])
        self.scale = self.add_weight(shape=shape, initializer="ones", name="scale")
        self.bias = self.add_weight(shape=shape, initializer="zeros", name="bias")
        # All training devices compute the same values.
        same: dict[str, Any] = {"trainable": False, "aggregation": "only_first_replica"}
        self.mean = self.add_weight(shape=shape, initializer="zeros", name="mean", **same)
        self.variance = self.add_weight(shape=shape, initializer="ones", name="variance", **same)
        self.updates = self.add_weight(shape=(), initializer="zeros", dtype="int64", name="updates", **same)

    def call(self, inputs: list[tf.Tensor], training: bool = False) -> Affine:
        """The affine map that normalizes two inputs `[N, F]`: multipliers and offsets, float32 `[2, F]`."""
        mean, variance = (tf.convert_to_tensor(v) for v in (self.mean, self.variance))
        scale, bias = tf.convert_to_tensor(self.scale), tf.convert_to_tensor(self.bias)
        if not training:
            multiplier = scale * tf.math.rsqrt(variance + self.EPSILON)
            return multiplier, bias - mean * multiplier
        r, d, of_batch, sigma_of_batch = self._corrections(inputs, mean, variance)
        multiplier = scale * r / sigma_of_batch
        return multiplier, bias + scale * d - of_batch * multiplier

    def _corrections(
        self, inputs: list[tf.Tensor], mean: tf.Tensor, variance: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
        """r, d, and the mean and standard deviation of the batch, all `[2, F]`; moves the statistics."""
        floats = [tf.cast(x, tf.float32) for x in inputs]
        of_batch = mean_over_replicas(tf.stack([tf.reduce_mean(x, 0) for x in floats]))
        centered = (x - mean for x, mean in zip(floats, tf.unstack(of_batch), strict=True))
        squares = mean_over_replicas(tf.stack([tf.reduce_mean(tf.square(x), 0) for x in centered]))
        sigma_of_batch, sigma = tf.sqrt(squares + self.EPSILON), tf.sqrt(variance + self.EPSILON)
        r = tf.clip_by_value(sigma_of_batch / sigma, 1.0 / self.MOST_R, self.MOST_R)
        d = tf.clip_by_value((of_batch - mean) / sigma, -self.MOST_D, self.MOST_D)
        is_warm = tf.convert_to_tensor(self.updates) >= self.WARM_UP_UPDATES
        r = tf.stop_gradient(tf.where(is_warm, r, tf.ones_like(r)))
        d = tf.stop_gradient(tf.where(is_warm, d, tf.zeros_like(d)))
        for statistic, new in ((self.mean, of_batch), (self.variance, squares)):
            old = tf.convert_to_tensor(statistic)
            statistic.assign(old + (1.0 - self.MOMENTUM) * tf.stop_gradient(new - old))
        self.updates.assign_add(1)
        return r, d, of_batch, sigma_of_batch
