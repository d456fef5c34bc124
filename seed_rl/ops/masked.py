"""Averages over the transitions that are experience."""

import tensorflow as tf

from seed_rl.ops.replicas import sum_over_replicas


def masked_mean(x: tf.Tensor, mask: tf.Tensor, axis: int | None = None) -> tf.Tensor:
    """The mean where `mask` is set, over `axis` or over everything; 0 where the mask is empty.

    Both arrays have the same shape. Everything is the whole training batch, also when each of several
    training devices has a part of it.
    """
    sums = tf.reduce_sum(tf.where(mask, x, 0.0), axis), tf.reduce_sum(tf.cast(mask, x.dtype), axis)
    return tf.math.divide_no_nan(*(sum_over_replicas(sums) if axis is None else sums))


def masked_normalize(x: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Scales `x` to mean 0 and standard deviation 1 where `mask` is set; 0 elsewhere."""
    mean = masked_mean(x, mask)
    deviation = tf.sqrt(masked_mean(tf.square(x - mean), mask))
    return tf.where(mask, (x - mean) / (deviation + 1e-8), 0.0)


def explained_variance(values: tf.Tensor, targets: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """The fraction of the targets' variance that the values explain: 1 at best."""

    def variance(x: tf.Tensor) -> tf.Tensor:
        return masked_mean(tf.square(x - masked_mean(x, mask)), mask)

    return 1.0 - tf.math.divide_no_nan(variance(targets - values), variance(targets))
