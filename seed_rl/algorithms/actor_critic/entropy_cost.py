"""The weight of an entropy bonus: fixed, or adjusted so that the entropy approaches a target."""

import math

import keras
import tensorflow as tf


class EntropyCost(keras.layers.Layer):
    """`exp(speed * parameter)` with a learned parameter, or a constant if there is no target."""

    def __init__(self, cost: float, target_entropy: float | None, adjustment_speed: float):
        """Starts at `cost`, which must be above 0 if `target_entropy` (nats) is set."""
        super().__init__()
        self._cost = cost
        self._target_entropy = target_entropy
        self._speed = adjustment_speed
        if target_entropy is not None:
            start = keras.initializers.Constant(math.log(cost) / adjustment_speed)
            self._parameter = self.add_weight(shape=(), initializer=start, name="entropy_cost_parameter")
        self.built = True

    def cost(self) -> tf.Tensor:
        """The current weight: float32 scalar."""
        if self._target_entropy is None:
            return tf.constant(self._cost)
        return tf.exp(self._speed * tf.convert_to_tensor(self._parameter))

    def loss(self, entropy: tf.Tensor) -> tf.Tensor:
        """The term to add to the loss for policies with this entropy; any shape.

        The policy's gradient comes from the bonus `-cost * entropy`, and the cost's from the second term,
        which raises the cost if the entropy is below its target and lowers it if it is above.
        """
        cost = self.cost()
        bonus = -tf.stop_gradient(cost) * entropy
        if self._target_entropy is None:
            return bonus
        return bonus + cost * tf.stop_gradient(entropy - self._target_entropy)
