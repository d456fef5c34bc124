"""Reads the wire's records on the device: one tensor goes in, instead of one per array."""

import numpy as np
import tensorflow as tf

from seed_rl.types import EnvironmentSpec, EnvOutput, pack_like


def decode_records(records: tf.Tensor, layout: np.dtype, spec: EnvironmentSpec) -> EnvOutput:
    """The same as `StepCodec.decode`, in TensorFlow.

    Args:
      records: uint8 `[B, record_bytes]`.
      layout: of a record, `StepCodec.record`.
      spec: of the environments.

    Returns:
      `[B, ...]`.
    """
    assert layout.names is not None and layout.fields is not None
    arrays = []
    for name in layout.names:
        dtype, offset = layout.fields[name][:2]
        arrays.append(_decode(records[:, offset : offset + dtype.itemsize], dtype))
    reward, done, truncated, *leaves = arrays
    return EnvOutput(reward, done, truncated, pack_like(spec.observation, leaves))


def _decode(raw: tf.Tensor, dtype: np.dtype) -> tf.Tensor:
    """From bytes `[B, itemsize]` to `[B, *shape]`."""
    base, shape = dtype.base, dtype.shape
    if base.kind == "b":
        return tf.cast(tf.reshape(raw, [-1, *shape]), tf.bool)
    if base == np.uint8:
        return tf.reshape(raw, [-1, *shape])
    size = [base.itemsize] if base.itemsize > 1 else []
    return tf.bitcast(tf.reshape(raw, [-1, *shape, *size]), tf.as_dtype(base.newbyteorder("=")))
