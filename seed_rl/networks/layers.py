"""Building blocks of networks: chains, linear layers, and noisy ones."""

from collections.abc import Iterable, Sequence
from typing import Any

import keras
import tensorflow as tf

from seed_rl.networks.networks_config import NetworkConfig
from seed_rl.ops import draws


def track_each(owner: Any, layers: Iterable[Any], name: str) -> list[Any]:
    """Makes each layer an attribute of a Keras layer, `name_0`, `name_1`, …, and returns them as a list.

    `tf.train.Checkpoint` silently leaves out the layers of a list (Keras 3).
    """
    layers = list(layers)
    for i, layer in enumerate(layers):
        setattr(owner, f"{name}_{i}", layer)
    return layers


class Composite(keras.layers.Layer):
    """A layer made of layers, which create their variables when it is first called.

    If it had no `build`, Keras would trace `call` on symbolic inputs before that, which is half of the time
    that it takes to make a network.
    """

    def build(self, input_shape: Any) -> None:
        """Creates nothing."""


class Chain(Composite):
    """Applies layers in sequence. Unlike `keras.Sequential`, it leaves the dtype of its input alone."""

    def __init__(self, chain: Sequence[Any]):
        super().__init__(autocast=False)
        self._chain = track_each(self, chain, "layer")

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Maps the first layer's input to the last layer's output."""
        for layer in self._chain:
            inputs = layer(inputs)
        return inputs


def dense(config: NetworkConfig, units: int, activation: str = "relu") -> Any:
    """A fully connected layer with an activation and, between the two, layer normalization if wanted."""
    if not config.layer_norm:
        return keras.layers.Dense(units, activation=activation, kernel_initializer=config.initializer)
    linear = keras.layers.Dense(units, kernel_initializer=config.initializer)
    return Chain([linear, *normalization(True), keras.layers.Activation(activation)])


def normalization(layer_norm: bool) -> list[Any]:
    """Layer normalization (Ba et al., 2016) over the last dimension, or nothing."""
    return [keras.layers.LayerNormalization()] if layer_norm else []


class NoisyDense(keras.layers.Layer):
    """`(mu_w + sigma_w * noise_w) x + mu_b + sigma_b * noise_b` (section 3, equation 9), then an activation.

    It explores by noise in the weights, of a learned size (Fortunato et al., 2018). The noise is factorized
    (equations 10 and 11): a number for each input and one for each output, whose products are the noise of
    the weights. It is drawn for each call, and is the same for the whole batch.
    """

    def __init__(
        self,
        units: int,
        sigma: float,
        activation: str = "linear",
        initializer: Any = None,
        layer_norm: bool = False,
        **kwargs: Any,
    ):
        """The noise's standard deviation starts at `sigma`, divided by the root of the number of inputs.

        Section 3.2; the paper uses 0.5. `initializer` is that of mu; None: uniform within the inverse of that
        root, as in the paper. `layer_norm`: whether outputs are normalized before the activation.
        """
        super().__init__(**kwargs)
        self._units, self._sigma, self._initializer = units, sigma, initializer
        self._activation = keras.activations.get(activation)
        self.normalization = keras.layers.LayerNormalization() if layer_norm else None

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Creates the variables (section 3.2)."""
        inputs = input_shape[-1]
        assert inputs is not None
        bound = inputs**-0.5
        mean = self._initializer or keras.initializers.RandomUniform(-bound, bound)
        deviation = keras.initializers.Constant(self._sigma * bound)
        bias = "zeros" if self._initializer else keras.initializers.RandomUniform(-bound, bound)
        self.kernel = self.add_weight(shape=(inputs, self._units), initializer=mean, name="kernel")
        self.bias = self.add_weight(shape=(self._units,), initializer=bias, name="bias")
        self.kernel_sigma = self.add_weight(
            shape=(inputs, self._units), initializer=deviation, name="kernel_sigma"
        )
        self.bias_sigma = self.add_weight(shape=(self._units,), initializer=deviation, name="bias_sigma")
        self.built = True

    def call(self, inputs: tf.Tensor, noisy: bool = False) -> tf.Tensor:
        """Maps `[N, inputs]` to `[N, units]`; without noise, by the means."""
        kernel, bias = tf.convert_to_tensor(self.kernel), tf.convert_to_tensor(self.bias)
        if noisy:
            of_inputs, of_outputs = (
                tf.cast(factor(draws.normal(tf.constant([size]))), kernel.dtype) for size in kernel.shape
            )
            kernel += self.kernel_sigma * of_inputs[:, tf.newaxis] * of_outputs
            bias += self.bias_sigma * of_outputs
        outputs = tf.matmul(inputs, kernel) + bias
        if self.normalization is not None:
            outputs = self.normalization(outputs)
        return self._activation(outputs)


def factor(x: tf.Tensor) -> tf.Tensor:
    """`f(x) = sign(x) |x|^1/2`, elementwise (section 3, below equation 11)."""
    return tf.sign(x) * tf.sqrt(tf.abs(x))
