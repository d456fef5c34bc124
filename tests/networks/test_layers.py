import keras
import numpy as np
import tensorflow as tf

from seed_rl.networks.layers import NoisyDense
from seed_rl.ops import draws

N, INPUTS, UNITS = 5, 16, 3


def layer_and_inputs(**options):
    keras.utils.set_random_seed(0)
    layer = NoisyDense(UNITS, 0.5, **options)
    inputs = np.random.default_rng(0).normal(size=(N, INPUTS)).astype(np.float32)
    layer(inputs)
    return layer, inputs


def test_variables_start_as_in_the_paper():
    layer, _ = layer_and_inputs()
    for mean in (layer.kernel.numpy(), layer.bias.numpy()):
        assert 0 < np.abs(mean).max() <= INPUTS**-0.5
    for sigma in (layer.kernel_sigma.numpy(), layer.bias_sigma.numpy()):
        np.testing.assert_allclose(sigma, np.full(sigma.shape, 0.5 / 4))


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
