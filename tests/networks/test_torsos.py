import numpy as np
import pytest
import tensorflow as tf

from seed_rl.networks.networks_config import NetworkConfig
from seed_rl.networks.scaling import FixedScale
from seed_rl.networks.torsos import MLP, PixelConv2D, make_torso
from seed_rl.types import ArraySpec


def features(name, spec, shape=None, sizes="7,5", **settings):
    """A torso, and its features of zeros."""
    shape = shape or spec.shape
    torso = make_torso(NetworkConfig(torso=name, mlp_sizes=sizes, **settings), spec, shape)
    return torso, torso(tf.zeros([2, *shape], spec.dtype))


def mlp(spec):
    return MLP(NetworkConfig(mlp_sizes=""), spec, FixedScale(spec))


def shapes(torso):
    return [tuple(weight.shape) for weight in torso.trainable_weights]


@pytest.mark.parametrize(
    ("name", "shape", "kernels"),
    [
        ("shallow", (84, 84, 4), [(8, 8, 4, 16), (4, 4, 16, 32), (9 * 9 * 32, 256)]),
        ("nature", (84, 84, 4), [(8, 8, 4, 32), (4, 4, 32, 64), (3, 3, 64, 64), (7 * 7 * 64, 512)]),
        ("shallow", (20, 20, 1), [(8, 8, 1, 16), (4, 4, 16, 32), (32, 256)]),
        ("nature", (36, 36, 1), [(8, 8, 1, 32), (4, 4, 32, 64), (3, 3, 64, 64), (64, 512)]),
    ],
)
def test_plain_convolutions(name, shape, kernels):
    """The last two images are the smallest."""
    torso, output = features(name, ArraySpec(shape, "uint8"))
    assert output.shape == (2, kernels[-1][-1])
    assert shapes(torso) == [shape for kernel in kernels for shape in (kernel, kernel[-1:])]


@pytest.mark.parametrize("name", ["shallow", "nature", "resnet", "football", "minatar"])
def test_a_wider_network_has_so_many_times_the_filters_and_the_same_units(name):
    built = []
    for width in (1, 2):
        torso, output = features(name, ArraySpec((84, 84, 4), "uint8"), network_width=width)
        built.append(([found[-1] for found in shapes(torso) if len(found) == 4], output.shape))
    assert built[1] == ([2 * filters for filters in built[0][0]], built[0][1])


@pytest.mark.parametrize("name", ["shallow", "nature"])
def test_padded_convolutions(name):
    """Stooke & Abbeel (2018), section 5.1: 25x19 after the first layer, 12x9 after the others."""
    torso, output = features(name, ArraySpec((104, 80, 4), "uint8"), conv_padding=1, torso_units=0)
    assert output.shape == (2, 12 * 9 * shapes(torso)[-1][0])


@pytest.mark.parametrize(("name", "filters", "size"), [("resnet", 10, 9 * 12), ("football", 15, 5 * 6)])
def test_residual_networks(name, filters, size):
    """Three sections or, in football's, four, each of five convolutions."""
    torso, output = features(name, ArraySpec((72, 96, 4), "bool"), (72, 96, 16))
    assert output.shape == (2, 256)
    kernels = shapes(torso)[::2]
    assert [kernel[-1] for kernel in kernels] == [16] * 5 + [32] * filters + [256]
    assert kernels[0] == (3, 3, 16, 16) and kernels[-1] == (size * 32, 256)


def test_mlp_divides_bytes_and_casts_the_rest():
    for dtype, scale in [("uint8", 1 / 255), ("int64", 1.0), ("float32", 1.0), ("float64", 1.0)]:
        values = np.arange(6).reshape(1, 2, 3).astype(dtype)
        output = mlp(ArraySpec((2, 3), dtype))(tf.constant(values))
        np.testing.assert_allclose(output, values.reshape(1, 6) * scale, rtol=1e-6)


def test_mlp_makes_bounded_integers_one_hot():
    one = mlp(ArraySpec((), "int32", (0,), (3,)))(tf.constant([2, 0]))
    np.testing.assert_array_equal(one, [[0, 0, 1, 0], [1, 0, 0, 0]])
    two = mlp(ArraySpec((2,), "int8", (0, 0), (1, 2)))(tf.constant([[1, 2]], tf.int8))
    np.testing.assert_array_equal(two, [[0, 1, 0, 0, 0, 1]])


def test_pixels_count_as_fractions():
    images = np.random.default_rng(0).integers(0, 256, (2, 9, 8, 3)).astype(np.uint8)
    conv = PixelConv2D(FixedScale(ArraySpec((9, 8, 3), "uint8")), 4, 3, 2, padding="same", activation="relu")
    output = conv(images)
    conv.bias.assign([0.1, -0.1, 0.2, -0.2])
    expected = tf.nn.conv2d(images / np.float32(255), conv.kernel, 2, "SAME") + conv.bias
    np.testing.assert_allclose(conv(images), tf.nn.relu(expected), atol=1e-5)
    assert output.shape == conv(images).shape


@pytest.mark.parametrize("name", ["shallow", "nature", "mlp"])
def test_weights_start_from_the_initializer_that_was_asked_for(name):
    """Glorot's uniform weights have a bound, (6 / (fan in + fan out))^1/2, and come close to it."""
    torso, _ = features(name, ArraySpec((48, 48, 4), "uint8"), sizes="64", initializer="glorot_uniform")
    for kernel in (v.numpy() for v in torso.trainable_variables if len(v.shape) > 1):
        area = np.prod(kernel.shape[:-2])
        bound = np.sqrt(6 / (area * (kernel.shape[-2] + kernel.shape[-1])))
        assert 0.95 * bound < np.abs(kernel).max() <= bound


@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize(("name", "activation"), [("relu", lambda x: np.maximum(x, 0)), ("tanh", np.tanh)])
def test_the_mlps_activation_comes_after_layer_normalization(name, activation, layer_norm):
    spec = ArraySpec((3,), "float32")
    layer, _ = features("auto", spec, sizes="4", mlp_activation=name, layer_norm=layer_norm)
    vectors = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    linear = vectors @ next(v.numpy() for v in layer.trainable_variables if len(v.shape) == 2)
    if layer_norm:
        linear = (linear - linear.mean(1, keepdims=True)) / np.sqrt(linear.var(1, keepdims=True) + 1e-3)
    np.testing.assert_allclose(layer(vectors), activation(linear), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "units", "size"),
    [("nature", 0, 64), ("nature", 7, 7), ("resnet", 0, 5 * 5 * 32), ("resnet", 9, 9)],
)
def test_the_layer_after_convolutions_may_have_any_size_or_be_left_out(name, units, size):
    assert features(name, ArraySpec((36, 36, 4), "uint8"), torso_units=units)[1].shape == (2, size)
