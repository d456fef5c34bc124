import numpy as np
import pytest
import tensorflow as tf

from seed_rl.inference.env_table import decode_records
from seed_rl.types import ArraySpec, EnvironmentSpec, EnvOutput
from seed_rl.wire.codec import StepCodec


@pytest.mark.parametrize("dtype", ["uint8", "int8", "bool", "int16", "int32", "int64", "float32", "float64"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_the_same_as_the_codec(dtype, shape):
    observation = {"a": ArraySpec(shape, dtype), "b": ArraySpec((5,), "uint8")}
    spec = EnvironmentSpec(observation, ArraySpec((), "int32", (0,), (1,)))
    codec, rng = StepCodec(spec), np.random.default_rng(0)
    env = EnvOutput(
        rng.normal(size=4).astype(np.float32),
        np.array([True, False, False, True]),
        np.array([False, True, False, False]),
        {
            "a": rng.integers(-100, 100, (4, *shape)).astype(dtype),
            "b": rng.integers(0, 256, (4, 5)).astype(np.uint8),
        },
    )
    data = codec.encode(env)
    raw = tf.constant(np.frombuffer(data, np.uint8).reshape(4, -1))
    got, want = decode_records(raw, codec.record, spec), codec.decode(data)
    for tensor, array in zip(tf.nest.flatten(got), tf.nest.flatten(want), strict=True):
        assert tensor.dtype.as_numpy_dtype == array.dtype
        np.testing.assert_array_equal(tensor.numpy(), array)
