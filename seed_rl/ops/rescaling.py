"""R2D2's value rescaling and its inverse (Kapturowski et al., 2019, section 2.3; Pohlen et al., 2018)."""

import tensorflow as tf


def rescale(x: tf.Tensor, epsilon: float = 1e-3) -> tf.Tensor:
    """`h(x) = sign(x) (sqrt(|x| + 1) - 1) + epsilon x`, elementwise; any shape, float32.

    Written as `x / (sqrt(|x| + 1) + 1) + epsilon x`, which is equal and keeps float32's precision near 0.
    """
    return x / (tf.sqrt(tf.abs(x) + 1.0) + 1.0) + epsilon * x


def undo_rescale(x: tf.Tensor, epsilon: float = 1e-3) -> tf.Tensor:
    """The inverse of `rescale`, for an epsilon above 0.

    `sign(x) (s^2 - 1)` with `s = (sqrt(1 + 4 epsilon y) - 1) / (2 epsilon)` and `y = |x| + 1 + epsilon`,
    where s is written as `2 y / (sqrt(1 + 4 epsilon y) + 1)`: the difference would lose most of float32's
    precision.
    """
    y = tf.abs(x) + 1.0 + epsilon
    s = 2.0 * y / (tf.sqrt(1.0 + 4.0 * epsilon * y) + 1.0)
    return tf.sign(x) * (tf.square(s) - 1.0)
