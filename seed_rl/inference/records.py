"""Reads the wire's records on the device: one tensor goes in, instead of one per array."""

import numpy as np
import tensorflow as tf

from seed_rl.types import EnvironmentSpec, EnvOutput, pack_like


def decode_records(records: tf.Tensor, layout: np.dtype, spec: EnvironmentSpec) -> EnvOutput:
    """The same as `StepCodec.decode`, in TensorFlow.

    Args:
      records: uint8 `[B, N]`, whose first bytes are the records.
      layout: the dtype of a record, `StepCodec.record`.
      spec: of the environments.

    Returns:
      Tensors `[B, ...]`.
    """
    assert layout.names is not None
    reward, done, truncated, *leaves = (decode_array(records, layout, name) for name in layout.names)
    return EnvOutput(reward, done, truncated, pack_like(spec.observation, leaves))


def decode_array(rows: tf.Tensor, layout: np.dtype, name: str) -> tf.Tensor:
    """The field `name` of rows, from uint8 `[B, N]` to `[B, *shape]`."""
    assert layout.fields is not None
    dtype, offset = layout.fields[name][:2]
    raw = rows[:, offset : offset + dtype.itemsize]
    base, shape = dtype.base, dtype.shape
    if base.kind == "b":
        return tf.cast(tf.reshape(raw, [-1, *shape]), tf.bool)
    if base == np.uint8:
        return tf.reshape(raw, [-1, *shape])
    size = [base.itemsize] if base.itemsize > 1 else []
    return tf.bitcast(tf.reshape(raw, [-1, *shape, *size]), tf.as_dtype(base.newbyteorder("=")))
