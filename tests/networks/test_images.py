import keras
import numpy as np
import pytest
import tensorflow as tf

from seed_rl.networks import images
from seed_rl.networks.encoder import Encoder
from seed_rl.networks.networks_config import NetworkConfig
from seed_rl.networks.stacking import turn
from seed_rl.types import ArraySpec

# Shape, dtype, and the order of dimensions; None if it is no image.
ARRAYS = [
    ((84, 84), "uint8", (0, 1)),
    ((84, 84), "float32", None),
    ((84, 84, 3), "float32", (0, 1, 2)),
    ((3, 84, 84), "float32", (1, 2, 0)),
    ((4, 60, 80), "uint8", (1, 2, 0)),
    ((1, 64, 64), "uint8", (1, 2, 0)),
    ((3, 7, 7), "bool", (1, 2, 0)),
    ((72, 96, 16), "bool", (0, 1, 2)),
    ((3, 3, 3), "uint8", (0, 1, 2)),
    ((32, 32, 32), "uint8", (0, 1, 2)),
    ((5, 7, 20), "uint8", (0, 1, 2)),
    ((40, 40, 3), "uint8", (0, 1, 2)),
    ((3, 40, 3), "uint8", (0, 1, 2)),
    ((4, 84, 84, 3), "uint8", (1, 2, 0, 3)),
    ((4, 3, 84, 84), "bool", (2, 3, 0, 1)),
    ((4, 84, 84, 3), "float32", None),
    ((4, 9, 9, 3), "uint8", None),
    ((2, 4, 84, 84, 3), "uint8", None),
    ((7,), "uint8", None),
    ((), "uint8", None),
]


@pytest.mark.parametrize(("shape", "dtype", "order"), ARRAYS)
def test_images_and_the_order_of_their_dimensions(shape, dtype, order):
    spec = ArraySpec(shape, dtype)
    assert images.is_image(spec) == (order is not None)
    if order is None:
        return
    assert images.dimensions(spec) == order
    array = np.random.default_rng(0).integers(0, 2, (2, 3, *shape, 2)).astype("uint8")
    turned = turn(tf.constant(array), spec, 2).numpy()
    assert turned.shape == (6, *images.turned_shape(spec, 2))
    expected = np.transpose(array.reshape(6, *shape, 2), [0, *(1 + i for i in order), len(shape) + 1])
    np.testing.assert_array_equal(turned, expected.reshape(turned.shape))


@pytest.mark.parametrize(
    ("dtype", "frame_stack"), [("uint8", 1), ("uint8", 4), ("bool", 1), ("bool", 4), ("float32", 1)]
)
@pytest.mark.parametrize("normalize", [False, True])
def test_channels_first_are_encoded_as_the_same_images_with_channels_last(dtype, frame_stack, normalize):
    options = {"frame_stack": frame_stack, "normalize_observations": normalize}
    first, last = (3, 38, 40), (38, 40, 3)
    rng, shape = np.random.default_rng(0), (2, 3)
    pixels = rng.integers(0, 2 if dtype == "bool" else 256, (*shape, *first)).astype(dtype)
    done = tf.constant(rng.random(shape) < 0.3)
    found = []
    for size, array in ((first, pixels), (last, np.moveaxis(pixels, 2, -1))):
        spec = ArraySpec(size, dtype)
        if dtype == "bool":
            spec, array = ArraySpec.packed(size), np.packbits(array.reshape(*shape, -1), axis=-1)
        keras.utils.set_random_seed(0)
        encoder = Encoder(NetworkConfig(**options), spec)
        encoder.observe(tf.constant(array))
        found.append(encoder.encode(tf.constant(array), done, encoder.initial_state(3))[0])
    assert found[0].shape == (2, 3, 256)
    np.testing.assert_allclose(*found, rtol=1e-4, atol=1e-4)


def test_arrays_are_left_as_they_are_where_nothing_is_convolved():
    """So that a run with an MLP resumes with the weights that it has."""
    for shape, torso in (((3, 7, 7), "auto"), ((3, 84, 84), "mlp"), ((84, 84, 3), "nature")):
        assert not images.must_be_turned(ArraySpec(shape, "uint8"), torso)
    for torso in ("auto", "nature", "resnet"):
        assert images.must_be_turned(ArraySpec((3, 84, 84), "uint8"), torso)
    assert images.must_be_turned(ArraySpec((3, 7, 7), "uint8"), "minatar")
