"""Noisy linear layers: exploration by noise in the weights, of a learned size (Fortunato et al., 2018)."""

from typing import Any

import keras
import tensorflow as tf

from seed_rl.ops import draws


class NoisyDense(keras.layers.Layer):
    """`(mu_w + sigma_w * noise_w) x + mu_b + sigma_b * noise_b` (section 3, equation 9), then an activation.

    The noise is factorized (equations 10 and 11): a number for each input and one for each output, whose
    products are the noise of the weights. It is drawn for each call, and is the same for the whole batch.
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
        """Prepares; the variables are created at the first call.

        Args:
          units: outputs.
          sigma: the noise's standard deviation at the start, times the root of the number of inputs
            (section 3.2; the paper uses 0.5).
          activation: name of the activation, or linear.
          initializer: of mu, by its name in Keras; None: uniform within the inverse of the root of the
            number of inputs, as in the paper.
          layer_norm: whether outputs are normalized before the activation.
          **kwargs: of `keras.layers.Layer`.
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
