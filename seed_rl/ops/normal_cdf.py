"""The normal distribution function, however far out."""

import math

import tensorflow as tf

# Below this, it is computed from its series.
_FAR_OUT = -6.0


def log_normal_cdf(x: tf.Tensor) -> tf.Tensor:
    """Log of the standard normal's distribution function, float32, with a gradient however far out `x` is."""
    far = x < _FAR_OUT
    near = tf.math.log(0.5 * tf.math.erfc(-tf.where(far, 0.0, x) / math.sqrt(2.0)))
    # Mills' ratio for what erfc cannot hold: phi(x) / -x (1 - 1/x^2 + 3/x^4).
    y = tf.where(far, x, _FAR_OUT)
    inverse = 1.0 / tf.square(y)
    series = tf.math.log1p(-inverse + 3.0 * tf.square(inverse))
    return tf.where(far, -0.5 * tf.square(y) - tf.math.log(-y) - 0.5 * math.log(2.0 * math.pi) + series, near)
