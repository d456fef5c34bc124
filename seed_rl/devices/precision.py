"""Precision of networks: float32, or bfloat16 with variables and outputs in float32."""

import contextlib
from collections.abc import Iterator

import keras

_POLICIES = {"float32": "float32", "bfloat16": "mixed_bfloat16"}


@contextlib.contextmanager
def computing_in(precision: str) -> Iterator[None]:
    """Keras layers that are created inside compute in this precision, `float32` or `bfloat16`, for good.

    Their variables are float32 in either case, so checkpoints fit any precision.
    """
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(_POLICIES[precision])
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)
