import keras
import numpy as np
import pytest
import tensorflow as tf

from seed_rl.devices.placement import computing_in
from seed_rl.networks.networks_config import NetworkConfig
from seed_rl.networks.q_network import NUM_COSINES, Head, QNetwork
from seed_rl.types import EnvironmentSpec
from tests.algorithms.q_learning import ACTION, VECTOR, A, random_env

N, M = 5, 3
SPEC = EnvironmentSpec(VECTOR, ACTION)


def network(head, **options):
    keras.utils.set_random_seed(0)
    return QNetwork(NetworkConfig(**{"lstm_size": 0, "mlp_sizes": "8"} | options), SPEC, A, head)


def random_step():
    rng = np.random.default_rng(0)
    env = tf.nest.map_structure(lambda x: tf.constant(x[0]), random_env(rng, (1, N), VECTOR))
    return tf.constant(rng.integers(0, A, N), tf.int32), env


def fractions():
    return tf.constant(np.random.default_rng(0).random((N, M)), tf.float32)


def slow_stream(hidden, last, features):
    if hidden is not None:
        features = np.maximum(features @ hidden.kernel.numpy() + hidden.bias.numpy(), 0)
    return features @ last.kernel.numpy() + last.bias.numpy()


@pytest.mark.parametrize("num_outputs", [1, M])
@pytest.mark.parametrize("units", [0, 16])
@pytest.mark.parametrize("dueling", [False, True])
def test_against_numpy(num_outputs, units, dueling):
    net = network(Head(units=units, dueling=dueling, num_outputs=num_outputs))
    features = net.features(*random_step(), ())[0].numpy()
    found = net.outputs(tf.constant(features))
    advantage = slow_stream(net._advantage_hidden, net._advantage, features)
    expected = advantage.reshape(N, A, num_outputs)
    if dueling:
        value = slow_stream(net._value_hidden, net._value, features)
        expected = expected - expected.mean(1, keepdims=True) + value[:, np.newaxis]
    assert found.shape == (N, A, num_outputs)
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("dueling", [False, True])
def test_quantiles_against_numpy(dueling):
    net = network(Head(units=16, dueling=dueling, implicit=True))
    features, taus = net.features(*random_step(), ())[0].numpy(), fractions().numpy()
    found = net.outputs(tf.constant(features), tf.constant(taus))
    weights, bias = net._embedding.kernel.numpy(), net._embedding.bias.numpy()
    expected = np.zeros((N, A, M))
    for n in range(N):
        for m in range(M):
            cosines = np.array([np.cos(np.pi * i * taus[n, m]) for i in range(NUM_COSINES)])
            embedded = np.maximum(cosines @ weights + bias, 0) * features[n]
            outputs = slow_stream(net._advantage_hidden, net._advantage, embedded)
            if dueling:
                outputs += slow_stream(net._value_hidden, net._value, embedded) - outputs.mean()
            expected[n, :, m] = outputs
    np.testing.assert_allclose(found, expected, atol=1e-4)
    assert np.abs(found[..., 0] - found[..., 1]).max() > 0.01


HEADS = {
    "plain": Head(),
    "dueling": Head(units=8, dueling=True),
    "noisy": Head(units=8, dueling=True, noisy_sigma=0.5),
    "quantiles": Head(units=8, implicit=True, noisy_sigma=0.5, dueling=True),
    "atoms": Head(num_outputs=M, noisy_sigma=0.5),
}


@pytest.mark.parametrize("name", HEADS)
def test_noise_comes_only_when_asked_and_the_last_layers_stay_in_float32(name):
    taus = fractions() if HEADS[name].implicit else None
    exact = network(HEADS[name])
    with computing_in("bfloat16"):
        net = network(HEADS[name])
    features, expected = (n.features(*random_step(), ())[0] for n in (net, exact))
    found, expected = net.outputs(features, taus), exact.outputs(expected, taus)
    assert found.dtype == tf.float32
    np.testing.assert_allclose(found, expected, atol=0.05 * np.abs(expected).max())
    assert (found.numpy() != expected.numpy()).any()
    np.testing.assert_array_equal(found, net.outputs(features, taus))
    one, other = (net.outputs(features, taus, noisy=True) for _ in range(2))
    assert one.dtype == tf.float32 and np.isfinite(one).all()
    assert (np.abs(one - other).max() > 0) == (HEADS[name].noisy_sigma is not None)
