"""The temperature: how much a nat of entropy is worth, adjusted so that the entropy reaches its target."""

import math

import keras
import tensorflow as tf


class Temperature(keras.layers.Layer):
    """`alpha = exp(parameter)`, which stays above 0 (Haarnoja et al., 2018, section 5)."""

    def __init__(self, initial: float):
        """Starts at `initial`, above 0."""
        super().__init__()
        start = keras.initializers.Constant(math.log(initial))
        self._parameter = self.add_weight(shape=(), initializer=start, name="log_temperature")
        self.built = True

    def value(self) -> tf.Tensor:
        """Alpha: float32 scalar."""
        return tf.exp(tf.convert_to_tensor(self._parameter))

    def loss(self, entropy: tf.Tensor, target: float) -> tf.Tensor:
        """`alpha (entropy - target)` (equation 18), of any shape; no gradient goes to the entropy."""
        return self.value() * tf.stop_gradient(entropy - target)
