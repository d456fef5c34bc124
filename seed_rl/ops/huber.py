"""The Huber loss (Huber, 1964), by which DQN weighs temporal differences (Mnih et al., 2015, Methods)."""

import tensorflow as tf


def huber(x: tf.Tensor, kappa: float = 1.0) -> tf.Tensor:
    """`x^2 / 2` up to `|x| = kappa`, and beyond it the line `kappa (|x| - kappa / 2)`; any shape, float32.

    Its derivative is x clipped to `[-kappa, kappa]`: with kappa = 1, the clipped error of Mnih et al.
    """
    size = tf.abs(x)
    inside = tf.minimum(size, kappa)
    return inside * (size - 0.5 * inside)
