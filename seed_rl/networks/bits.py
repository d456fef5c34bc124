"""Unpacks bits into the bools that they stand for: the inverse of `numpy.packbits`."""

import math

import tensorflow as tf

from seed_rl.types import ArraySpec


def unpack_stacks(stacks: tf.Tensor, spec: ArraySpec) -> tf.Tensor:
    """Unpacks stacks of F arrays, uint8 `[..., *spec.shape, F]`, to uint8 `[N, elements, F]`, 0 or 1.

    N is the product of the leading dimensions, and the elements are those of `spec.bits` in C order.
    """
    (num_bytes,) = spec.shape
    num_frames = stacks.shape[-1]
    highest_first = tf.constant([7, 6, 5, 4, 3, 2, 1, 0], tf.uint8)[:, tf.newaxis]
    stacks = tf.reshape(stacks, [-1, num_bytes, 1, num_frames])
    bits = tf.bitwise.bitwise_and(tf.bitwise.right_shift(stacks, highest_first), tf.constant(1, tf.uint8))
    return tf.reshape(bits, [-1, num_bytes * 8, num_frames])[:, : math.prod(spec.unpacked.shape)]


def unpack(array: tf.Tensor, spec: ArraySpec) -> tf.Tensor:
    """Unpacks an observation `[..., *spec.shape]` to the environment's `[..., *spec.unpacked.shape]`.

    Packed bools become uint8, 0 or 1; anything else is left as it is.
    """
    if spec.bits is None:
        return array
    leading = tf.shape(array)[:-1]
    bits = tf.reshape(unpack_stacks(array[..., tf.newaxis], spec), tf.concat([leading, spec.bits], 0))
    return tf.ensure_shape(bits, [*array.shape[:-1], *spec.bits])
