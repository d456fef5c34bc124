import keras
import numpy as np
import pytest
import tensorflow as tf

from seed_rl.networks.networks_config import NetworkConfig
from seed_rl.networks.twin_critics import TwinCritics, TwinDense
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
