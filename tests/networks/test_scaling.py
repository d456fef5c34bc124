import numpy as np
import pytest
import tensorflow as tf

from seed_rl.networks.encoder import Encoder
from seed_rl.networks.networks_config import NetworkConfig
from seed_rl.networks.scaling import FixedScale, RunningScale
from seed_rl.networks.stacking import FrameStack
from seed_rl.networks.torsos import MLP, PixelConv2D
from seed_rl.types import ArraySpec

VECTOR = ArraySpec((3,), "float32")
IMAGE = ArraySpec((9, 8), "uint8")
NO_LAYERS = NetworkConfig(mlp_sizes="")


def batches(spec, seed=0, sizes=(4, 1, 7)):
    """Batches `[T, B, *shape]` of very different means and spreads."""
    rng = np.random.default_rng(seed)
    return [
        (rng.normal(size=(size, 2, *spec.shape)) * (i + 1) * 5 + 100 + 20 * i).astype(spec.dtype)
        for i, size in enumerate(sizes)
    ]


@pytest.mark.parametrize("spec", [VECTOR, IMAGE, ArraySpec((), "float32")], ids=str)
def test_statistics_are_those_of_all_that_was_observed(spec):
    scale = RunningScale(spec)
    for batch in batches(spec):
        scale.update(tf.constant(batch))
    everything = np.concatenate(batches(spec)).reshape(-1, *spec.shape).astype(np.float64)
    assert float(scale.count) == len(everything) == 24
    np.testing.assert_allclose(scale.mean, everything.mean(0), rtol=1e-5)
    np.testing.assert_allclose(scale.variance, everything.var(0), rtol=1e-4)


def test_components_of_a_vector_are_scaled_by_themselves_and_limited():
    """One that never changes is only centred."""
    scale, rng = RunningScale(VECTOR), np.random.default_rng(0)
    data = (rng.normal(size=(1000, 3)) * [1, 100, 0] + [5, -5, 7]).astype(np.float32)
    scale.update(tf.constant(data))
    mlp = MLP(NO_LAYERS, VECTOR, scale)
    out = mlp(tf.constant(data)).numpy()
    np.testing.assert_allclose(out.mean(0), 0, atol=1e-4)
    np.testing.assert_allclose(out.std(0), [1, 1, 0], rtol=1e-3)
    np.testing.assert_allclose(mlp(tf.constant([[1e6, -1e6, 8.0]])), [[10.0, -10.0, 1.0]])


@pytest.mark.parametrize("padding", ["same", "valid"])
@pytest.mark.parametrize("num_frames", [1, 4])
def test_a_convolution_sees_centred_images_of_variance_one(num_frames, padding):
    scale = RunningScale(IMAGE, FrameStack(num_frames, IMAGE))
    frames = batches(IMAGE)[2]
    scale.update(tf.constant(frames))
    images = np.repeat(frames.reshape(-1, 9, 8, 1), num_frames, -1)
    conv = PixelConv2D(scale, 4, 3, 2, padding=padding)
    output = conv(tf.constant(images))
    flat = frames.reshape(-1, 9, 8).astype(np.float64)
    scaled = (flat - flat.mean(0)) / np.sqrt(flat.var(0).mean())
    np.testing.assert_allclose(scaled.var(), 1)
    expected = tf.nn.conv2d(
        np.repeat(scaled[..., np.newaxis], num_frames, -1).astype(np.float32), conv.kernel, 2, padding.upper()
    )
    np.testing.assert_allclose(output, expected, atol=1e-4)


@pytest.mark.parametrize("spec", [VECTOR, IMAGE], ids=str)
def test_without_observations_it_is_the_fixed_scale(spec):
    inputs = tf.constant(batches(spec)[0][0])
    fixed = MLP(NO_LAYERS, spec, FixedScale(spec))(inputs)
    running = MLP(NO_LAYERS, spec, RunningScale(spec, FrameStack(1, IMAGE) if spec is IMAGE else None))(
        inputs
    )
    np.testing.assert_allclose(running, np.clip(fixed, -10, 10), rtol=1e-6)


def test_the_encoder_observes_all_but_one_hot_inputs():
    spec = {"image": ArraySpec((40, 40), "uint8"), "kind": ArraySpec((), "int32", (0,), (3,)), "x": VECTOR}
    encoder = Encoder(NetworkConfig(normalize_observations=True, frame_stack=4), spec)
    arrays = {
        "image": tf.ones([2, 5, 40, 40], tf.uint8),
        "kind": tf.ones([2, 5], tf.int32),
        "x": tf.fill([2, 5, 3], 4.0),
    }
    encoder.encode(arrays, tf.ones([2, 5], tf.bool), encoder.initial_state(5))
    encoder.observe(arrays)
    counts = [v for v in encoder.non_trainable_variables if v.dtype == "float64"]
    assert [float(count) for count in counts] == [10.0, 10.0]
