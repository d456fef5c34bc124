import keras
import numpy as np
import pytest
import tensorflow as tf

from seed_rl.networks.networks_config import NetworkConfig
from seed_rl.networks.twin_critics import TwinCritics, TwinDense
from seed_rl.types import ArraySpec, EnvironmentSpec, EnvOutput

T, B = 2, 3
BOX = ArraySpec((2,), "float32", (-2.0, 1.0), (2.0, 5.0))
UNBOUNDED = ArraySpec((2,), "float32")
DISCRETE = ArraySpec((), "int32", (0,), (3,))
VECTOR, FRAME = ArraySpec((6,), "float32"), ArraySpec((10, 9), "uint8")


def critics(action=BOX, observation=VECTOR, **options):
    keras.utils.set_random_seed(0)
    config = NetworkConfig(**{"lstm_size": 0, "mlp_sizes": "8,4"} | options)
    return TwinCritics(config, EnvironmentSpec(observation, action))


def random_steps(action=BOX, observation=VECTOR):
    rng = np.random.default_rng(0)
    frames = rng.normal(size=(T, B, *observation.shape)) * (100 if observation is FRAME else 1)
    env = EnvOutput(
        rng.normal(size=(T, B)).astype(np.float32),
        rng.random((T, B)) < 0.3,
        np.zeros((T, B), bool),
        np.abs(frames).astype(observation.dtype) if observation is FRAME else frames.astype(np.float32),
    )
    if action.is_discrete:
        actions = rng.integers(0, 4, (T, B)).astype(np.int32)
    else:
        actions = rng.uniform(1, 2, (T, B, 2)).astype(np.float32)
    return tf.nest.map_structure(tf.constant, (actions, env))


def mlp(net, twin, inputs):
    """One of the two MLPs, written out."""
    for layer in net._hidden:
        inputs = np.maximum(inputs @ layer.kernel.numpy()[twin] + layer.bias.numpy()[twin], 0)
    return inputs @ net._output.kernel.numpy()[twin] + net._output.bias.numpy()[twin]


@pytest.mark.parametrize(
    ("action", "scaled"), [(BOX, lambda a: (a - [0, 3]) / [2, 2]), (UNBOUNDED, lambda a: a)]
)
def test_a_box_action_goes_into_both_mlps_scaled_by_its_bounds(action, scaled):
    net = critics(action, use_last_action_and_reward=False)
    actions, env = random_steps(action)
    found = net.values(net.features(actions, env, ()), actions)
    assert found.shape == (2, T, B)
    inputs = np.concatenate([env.observation.numpy(), scaled(actions.numpy())], -1)
    for twin in range(2):
        np.testing.assert_allclose(found[twin], mlp(net, twin, inputs)[..., 0], rtol=1e-4, atol=1e-5)


def test_every_discrete_action_has_a_value_in_both_mlps():
    net = critics(DISCRETE, use_last_action_and_reward=False)
    actions, env = random_steps(DISCRETE)
    found = net.values(net.features(actions, env, ()), actions)
    assert found.shape == (2, T, B, 4)
    for twin in range(2):
        np.testing.assert_allclose(found[twin], mlp(net, twin, env.observation.numpy()), rtol=1e-4, atol=1e-5)


def test_the_twins_start_differently_and_each_as_a_layer_of_its_own():
    layer = TwinDense(300, "he_normal")
    layer.build(2 * [(None, 200)])
    one, other = layer.kernel.numpy()
    assert np.abs(one - other).max() > 0.01
    np.testing.assert_allclose([one.std(), other.std()], np.sqrt(2 / 200), rtol=0.02)


@pytest.mark.parametrize(
    ("action", "observation", "options"),
    [(BOX, VECTOR, {}), (DISCRETE, VECTOR, {}), (BOX, FRAME, {"frame_stack": 4, "torso": "minatar"})],
)
def test_every_variable_gets_a_gradient_and_is_in_the_checkpoint(action, observation, options, tmp_path):
    net, other = (critics(action, observation, **options) for _ in range(2))
    actions, env = random_steps(action, observation)
    with tf.GradientTape() as tape:
        features = net.features(actions, env, net.trunk.initial_state(B))
        loss = tf.reduce_sum(net.values(features, actions))
    gradients = tape.gradient(loss, net.trainable_variables)
    for variable, gradient in zip(net.trainable_variables, gradients, strict=True):
        assert np.abs(gradient).max() > 0, variable.path
        variable.assign(variable + 1.0)
    path = tf.train.Checkpoint(net=net).save(str(tmp_path / "c"))
    tf.train.Checkpoint(net=other).restore(path).assert_consumed()
    for a, b in zip(net.trainable_variables, other.trainable_variables, strict=True):
        np.testing.assert_array_equal(a, b)
