"""Scaling of raw observations before the first layer, by a fixed scale or by running statistics."""

from typing import Any

import keras
import tensorflow as tf

from seed_rl.networks.stacking import FrameStack
from seed_rl.ops.means import mean_over_replicas, num_replicas
from seed_rl.types import ArraySpec

# Inputs `x` are scaled to `(x - shift) * scale`. The shift is None if it is 0, else shaped like one input.
Affine = tuple[tf.Tensor | None, Any]


class FixedScale:
    """Divides uint8 by 255, and leaves anything else as it is."""

    def __init__(self, spec: ArraySpec):
        self._scale = 1.0 / 255.0 if spec.dtype == "uint8" else 1.0

    def affine(self) -> Affine:
        """The scaling, which never changes."""
        return None, self._scale


class RunningScale(keras.layers.Layer):
    """Scales to mean 0 and variance 1 by the statistics of all observations that were trained on.

    Each component of a vector is scaled separately. The pixels of an image have their own means, which
    removes the background, but share one scale: dividing by its own deviation would blow up a pixel that
    hardly ever changes. Before the first observation, the fixed scale is used.
    """

    def __init__(self, spec: ArraySpec, stack: FrameStack | None = None):
        """Images have a `stack`, which makes the torso's input of them."""
        super().__init__()
        self._fixed, self._stack = FixedScale(spec).affine()[1], stack

        def weight(shape: tuple[int, ...], dtype: str) -> Any:
            # All training devices compute the same values.
            return self.add_weight(
                shape=shape,
                dtype=dtype,
                initializer="zeros",
                trainable=False,
                aggregation="only_first_replica",
                autocast=False,  # Statistics stay as precise as they are, whatever layers compute in.
            )

        self.count = weight((), "float64")
        self.mean = weight(spec.shape, "float32")
        self.variance = weight(spec.shape, "float32")
        self.built = True

    def update(self, observations: tf.Tensor) -> None:
        """Adds observations `[..., *spec.shape]` (Chan et al., 1979: combines the statistics of two sets).

        With several training devices, each gives a part of the same size.
        """
        shape = self.mean.shape
        batch = tf.reshape(tf.cast(observations, tf.float32), [-1, *shape])
        part_mean, part_variance = tf.nn.moments(batch, 0)
        mean = mean_over_replicas(part_mean)
        variance = mean_over_replicas(part_variance + tf.square(part_mean - mean))
        new = tf.cast(tf.shape(batch)[0] * num_replicas(), tf.float64)
        count = self.count + new
        share = tf.cast(new / count, tf.float32)
        delta = mean - self.mean
        joined = (1.0 - share) * (self.variance + share * tf.square(delta)) + share * variance
        self.mean.assign(self.mean + share * delta)
        self.variance.assign(joined)
        self.count.assign(count)

    def affine(self) -> Affine:
        """The scaling by the statistics so far; the shift is `[*shape of the torso's input]`."""
        variance = tf.reduce_mean(self.variance) if self._stack else tf.convert_to_tensor(self.variance)
        scale = tf.where(variance > 0.0, tf.math.rsqrt(tf.maximum(variance, 1e-12)), self._fixed)
        shift = tf.convert_to_tensor(self.mean)
        return (self._stack.repeat(shift) if self._stack else shift), scale
