import keras
import numpy as np
import pytest
import tensorflow as tf

from seed_rl.networks.noisy import NoisyDense, factor
from seed_rl.ops import draws

N, INPUTS, UNITS = 5, 16, 3


def layer_and_inputs(**options):
    keras.utils.set_random_seed(0)
    layer = NoisyDense(UNITS, 0.5, **options)
    inputs = np.random.default_rng(0).normal(size=(N, INPUTS)).astype(np.float32)
    layer(inputs)
    return layer, inputs


def test_the_factor_of_noise():
    np.testing.assert_allclose(factor(tf.constant([-4.0, 0.0, 2.25])), [-2.0, 0.0, 1.5])


def test_variables_start_as_in_the_paper():
    layer, _ = layer_and_inputs()
    for mean in (layer.kernel.numpy(), layer.bias.numpy()):
        assert 0 < np.abs(mean).max() <= INPUTS**-0.5
    for sigma in (layer.kernel_sigma.numpy(), layer.bias_sigma.numpy()):
        np.testing.assert_allclose(sigma, np.full(sigma.shape, 0.5 / 4))


def test_without_noise_it_is_a_linear_layer():
    layer, inputs = layer_and_inputs()
    expected = inputs @ layer.kernel.numpy() + layer.bias.numpy()
    np.testing.assert_allclose(layer(inputs), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(layer(inputs), layer(inputs))


def test_with_noise_against_the_equation():
    layer, inputs = layer_and_inputs()
    for variable in (layer.kernel_sigma, layer.bias_sigma):
        variable.assign(np.random.default_rng(1).random(variable.shape))
    with draws.seeded(tf.constant([1, 2])):
        found = layer(inputs, noisy=True)
    with draws.seeded(tf.constant([1, 2])):
        x, y = (draws.normal(tf.constant([size])).numpy() for size in (INPUTS, UNITS))
    x, y = (np.sign(noise) * np.sqrt(np.abs(noise)) for noise in (x, y))
    expected = np.zeros((N, UNITS))
    for n in range(N):
        for j in range(UNITS):
            expected[n, j] = layer.bias.numpy()[j] + layer.bias_sigma.numpy()[j] * y[j]
            for i in range(INPUTS):
                weight = layer.kernel.numpy()[i, j] + layer.kernel_sigma.numpy()[i, j] * x[i] * y[j]
                expected[n, j] += weight * inputs[n, i]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_noise_is_drawn_for_each_call_of_a_compiled_function():
    layer, inputs = layer_and_inputs()
    act = tf.function(lambda x: layer(x, noisy=True), autograph=False)
    outputs = np.stack([act(inputs) for _ in range(500)])
    assert np.abs(outputs[0] - outputs[1]).max() > 0.01
    # The variance of a factor is E|N(0, 1)| = (2 / pi)^1/2.
    variance = (0.5 / 4) ** 2 * ((inputs**2).sum(1) * (2 / np.pi) + (2 / np.pi) ** 0.5)
    np.testing.assert_allclose(outputs.mean(0), layer(inputs), atol=0.12)
    np.testing.assert_allclose(outputs.var(0).mean(1), variance, rtol=0.2)


@pytest.mark.parametrize("layer_norm", [False, True])
def test_every_variable_learns_and_is_in_the_checkpoint(tmp_path, layer_norm):
    layer, inputs = layer_and_inputs(activation="relu", layer_norm=layer_norm)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.square(layer(inputs, noisy=True)))
    variables = layer.trainable_variables
    assert len(variables) == 4 + 2 * layer_norm
    assert all(np.abs(gradient).max() > 0 for gradient in tape.gradient(loss, variables))
    path = tf.train.Checkpoint(layer=layer).save(str(tmp_path / "c"))
    for variable in variables:
        variable.assign(variable + 1)
    before = layer(inputs)
    tf.train.Checkpoint(layer=layer).restore(path).assert_consumed()
    assert np.abs(layer(inputs) - before).max() > 0.01
