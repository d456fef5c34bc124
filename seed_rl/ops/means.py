"""Sums and means over a training batch, of which several devices may have parts, and over its experience."""

from typing import TypeVar

import tensorflow as tf

NestT = TypeVar("NestT")


def sum_over_replicas(values: NestT) -> NestT:
    """Adds a nest of tensors over all training devices, while their step is traced; elsewhere returns it."""
    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return values
    return context.all_reduce(tf.distribute.ReduceOp.SUM, values)


def mean_over_replicas(values: NestT) -> NestT:
    """The same for means over parts of equal size. Nones, as gradients have them, stay."""
    count = num_replicas()
    if count == 1:
        return values
    leaves = tf.nest.flatten(values)
    sums = iter(sum_over_replicas([leaf for leaf in leaves if leaf is not None]))
    means = [None if x is None else (total := next(sums)) / tf.cast(count, total.dtype) for x in leaves]
    return tf.nest.pack_sequence_as(values, means)


def mean_of_metrics(metrics: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """The means of named scalars over all training devices: one reduction of a vector, not one for each."""
    if num_replicas() == 1:
        return metrics
    vector = tf.stack([tf.cast(value, tf.float32) for value in metrics.values()])
    return dict(zip(metrics, tf.unstack(mean_over_replicas(vector)), strict=True))


def num_replicas() -> int:
    """The number of training devices, while their step is traced; elsewhere 1."""
    context = tf.distribute.get_replica_context()
    return 1 if context is None else context.num_replicas_in_sync


def part_of_batch(whole: tf.Tensor, axis: int) -> tf.Tensor:
    """This training device's part of an array over the whole batch, which all devices have computed alike.

    So random numbers that are drawn for the whole batch do not depend on the number of devices. The size of
    the batch, which is the dimension `axis`, is known and a multiple of that number.
    """
    count, context = num_replicas(), tf.distribute.get_replica_context()
    if count == 1:
        return whole
    return tf.gather(tf.split(whole, count, axis), context.replica_id_in_sync_group)


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
