"""Averages over the transitions that are experience."""

import tensorflow as tf


def masked_mean(x: tf.Tensor, mask: tf.Tensor, axis: int | None = None) -> tf.Tensor:
    """The mean where `mask` is set, over `axis` or over everything; 0 where the mask is empty.

    Args:
      x: floating, any shape.
      mask: bool, of the same shape as `x`.
      axis: None for a scalar.
    """
    total = tf.reduce_sum(tf.where(mask, x, 0.0), axis)
    return tf.math.divide_no_nan(total, tf.reduce_sum(tf.cast(mask, x.dtype), axis))
