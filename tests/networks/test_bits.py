import numpy as np
import pytest
import tensorflow as tf

from seed_rl.networks.bits import unpack
from seed_rl.types import ArraySpec


@pytest.mark.parametrize("shape", [(2,), (8,), (3, 3), (5, 4, 3)])
@pytest.mark.parametrize("leading", [(), (6,), (2, 3)])
def test_the_inverse_of_numpy(shape, leading):
    bits = np.random.default_rng(0).integers(0, 2, (*leading, *shape), np.uint8)
    packed = np.packbits(bits.reshape(*leading, -1), axis=-1)
    spec = ArraySpec.packed(shape)
    assert packed.shape == (*leading, *spec.shape)
    unpacked = unpack(tf.constant(packed), spec)
    assert unpacked.dtype == tf.uint8
    np.testing.assert_array_equal(unpacked, bits)


def test_what_is_not_packed_stays():
    array = tf.constant([[1, 2]], tf.uint8)
    assert unpack(array, ArraySpec((2,), "uint8")) is array
