"""Scaling of raw observations before the first layer, by a fixed scale or by running statistics."""

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from seed_rl.networks.layers import turn
from seed_rl.ops.means import mean_over_replicas, num_replicas
from seed_rl.types import ArraySpec


class Affine(NamedTuple):
    """Scales inputs `x` to `(x - shift) * scale`. shift: None if it is 0, else shaped like one input."""

    shift: tf.Tensor | None
    scale: Any


class FixedScale:
    """Divides uint8 by 255, and leaves anything else as it is."""

    def __init__(self, spec: ArraySpec):
        self._affine = Affine(None, 1.0 / 255.0 if spec.dtype == "uint8" else 1.0)

    def affine(self) -> Affine:
        """The scaling, which never changes."""
        return self._affine


class RunningScale(keras.layers.Layer):
    """Scales to mean 0 and variance 1 by the statistics of all observations that were trained on.

    Each component of a vector is scaled separately. The pixels of an image have their own means, which
    removes the background, but share one scale: dividing by its own deviation would blow up a pixel that
    hardly ever changes. Before the first observation, the fixed scale is used.
    """

    def __init__(
        self, spec: ArraySpec, num_frames: int = 1, one_scale: bool = False, is_turned: bool = False
    ):
        """The torso's input has `num_frames` for each channel and, if `is_turned`, height and width first.

        With `one_scale`, all components share one scale, as the pixels of an image do.
        """
        super().__init__()
        self._fixed = FixedScale(spec).affine().scale
        self._num_frames, self._one_scale = num_frames, one_scale
        self._turned = spec if is_turned else None

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
        """The scaling by the statistics so far; `shift` is `[*shape of the torso's input]`."""
        variance = tf.reduce_mean(self.variance) if self._one_scale else tf.convert_to_tensor(self.variance)
        scale = tf.where(variance > 0.0, tf.math.rsqrt(tf.maximum(variance, 1e-12)), self._fixed)
        shift = tf.convert_to_tensor(self.mean)
        if self._one_scale:
            if self._turned is not None:
                shift = turn(shift, self._turned)[0]
            shift = tf.expand_dims(shift, -1) if shift.shape.rank == 2 else shift
            shift = tf.repeat(shift, self._num_frames, -1)
        return Affine(shift, scale)
