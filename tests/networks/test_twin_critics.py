import keras
import numpy as np
import pytest
import tensorflow as tf

from seed_rl.networks.networks_config import NetworkConfig
from seed_rl.networks.twin_critics import TwinBatchRenorm, TwinCritics, TwinDense
from seed_rl.types import ArraySpec, EnvironmentSpec
from tests.algorithms.q_learning import VECTOR, random_env

T, B = 2, 3
BOX = ArraySpec((2,), "float32", (-2.0, 1.0), (2.0, 5.0))
UNBOUNDED = ArraySpec((2,), "float32")
DISCRETE = ArraySpec((), "int32", (0,), (3,))


def critics(action):
    keras.utils.set_random_seed(0)
    config = NetworkConfig(lstm_size=0, mlp_sizes="8,4", use_last_action_and_reward=False)
    return TwinCritics(config, EnvironmentSpec(VECTOR, action))


def random_steps(action):
    rng = np.random.default_rng(0)
    actions = rng.uniform(1, 2, (T, B, *action.shape)).astype(action.dtype)
    return tf.nest.map_structure(tf.constant, (actions, random_env(rng, (T, B), VECTOR)))


def mlp(net, twin, inputs):
    """One of the two MLPs, written out."""
    for layer in net._hidden:
        inputs = np.maximum(inputs @ layer.kernel.numpy()[twin] + layer.bias.numpy()[twin], 0)
    return inputs @ net._output.kernel.numpy()[twin] + net._output.bias.numpy()[twin]


@pytest.mark.parametrize(
    ("action", "scaled"), [(BOX, lambda a: (a - [0, 3]) / [2, 2]), (UNBOUNDED, lambda a: a), (DISCRETE, None)]
)
def test_a_box_action_goes_into_both_mlps_and_a_discrete_one_has_values_from_both(action, scaled):
    """Boxes are scaled by their bounds."""
    net, (actions, env) = critics(action), random_steps(action)
    found = net.values(net.features(actions, env, ()), actions)
    inputs = env.observation.numpy()
    if scaled:
        inputs = np.concatenate([inputs, scaled(actions.numpy())], -1)
    for twin in range(2):
        expected = mlp(net, twin, inputs)
        np.testing.assert_allclose(
            found[twin], expected[..., 0] if scaled else expected, rtol=1e-4, atol=1e-5
        )


def test_the_twins_start_differently_and_each_as_a_layer_of_its_own():
    layer = TwinDense(300, "he_normal")
    layer.build(2 * [(None, 200)])
    one, other = layer.kernel.numpy()
    assert np.abs(one - other).max() > 0.01
    np.testing.assert_allclose([one.std(), other.std()], np.sqrt(2 / 200), rtol=0.02)


def normalized(layer, inputs, training):
    """Both inputs `[2, N, F]`, as the layer normalizes them."""
    multiplier, offset = layer(tf.unstack(inputs), training=training)
    return inputs * multiplier[:, tf.newaxis] + offset[:, tf.newaxis]


class SlowRenorm:
    """Batch renormalization of one input, as algorithm 1 of Ioffe, 2017, writes it."""

    def __init__(self, size):
        self.mean, self.variance, self.updates = np.zeros(size), np.ones(size), 0

    def train(self, x, warm_up):
        mean, variance = x.mean(0), x.var(0)
        sigma_of_batch, sigma = np.sqrt(variance + 1e-3), np.sqrt(self.variance + 1e-3)
        r = np.clip(sigma_of_batch / sigma, 1 / 3, 3) if self.updates >= warm_up else 1.0
        d = np.clip((mean - self.mean) / sigma, -5, 5) if self.updates >= warm_up else 0.0
        self.mean += 0.01 * (mean - self.mean)
        self.variance += 0.01 * (variance - self.variance)
        self.updates += 1
        return (x - mean) / sigma_of_batch * r + d

    def infer(self, x):
        return (x - self.mean) / np.sqrt(self.variance + 1e-3)


@pytest.mark.parametrize("warm_up", [0, 3, 100])
def test_batch_renormalization_is_that_of_the_paper(warm_up, monkeypatch):
    monkeypatch.setattr(TwinBatchRenorm, "WARM_UP_UPDATES", warm_up)
    rng, layer, slow = np.random.default_rng(0), TwinBatchRenorm(), [SlowRenorm(4), SlowRenorm(4)]
    layer.build(2 * [(None, 4)])
    scale, bias = rng.normal(size=(2, 2, 4))
    layer.scale.assign(scale)
    layer.bias.assign(bias)
    for _ in range(6):
        # Far enough from the running statistics that r and d are at their limits for some components.
        inputs = (rng.normal(size=(2, 50, 4)) * [0.1, 1, 2, 9] + [0, 20, -0.5, 0]).astype(np.float32)
        for training in (False, True):
            found = normalized(layer, tf.constant(inputs), training)
            for twin, one in enumerate(slow):
                expected = one.train(inputs[twin], warm_up) if training else one.infer(inputs[twin])
                expected = scale[twin] * expected + bias[twin]
                np.testing.assert_allclose(found[twin], expected, rtol=1e-4, atol=1e-4)


def test_no_gradient_goes_through_the_correction(monkeypatch):
    """With r and d as constants, a shift of all inputs changes nothing."""
    monkeypatch.setattr(TwinBatchRenorm, "WARM_UP_UPDATES", 0)
    layer, x = TwinBatchRenorm(), tf.random.stateless_normal([20, 3], [1, 2])
    layer.build(2 * [(None, 3)])
    with tf.GradientTape() as tape:
        tape.watch(x)
        found = normalized(layer, tf.stack([x, x]), training=True)[0]
        total = tf.reduce_sum(found * tf.random.stateless_normal([20, 3], [3, 4]))
    gradient = tape.gradient(total, x).numpy()
    np.testing.assert_allclose(gradient.sum(0), 0.0, atol=1e-5)
    assert np.abs(gradient).max() > 0.1
