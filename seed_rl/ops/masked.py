"""Averages over the transitions that are experience."""

import tensorflow as tf

from seed_rl.ops.replicas import sum_over_replicas


def masked_mean(x: tf.Tensor, mask: tf.Tensor, axis: int | None = None) -> tf.Tensor:
    """The mean where `mask` is set, over `axis` or over everything; 0 where the mask is empty.

    Everything is the whole training batch, also when each of several training devices has a part of it.

    Args:
      x: floating, any shape.
      mask: bool, of the same shape as `x`.
      axis: None for a scalar.
    """
    sums = tf.reduce_sum(tf.where(mask, x, 0.0), axis), tf.reduce_sum(tf.cast(mask, x.dtype), axis)
    return tf.math.divide_no_nan(*(sum_over_replicas(sums) if axis is None else sums))
