import numpy as np
import tensorflow as tf

from seed_rl.networks.config import NetworkConfig
from seed_rl.networks.dueling import DuelingNetwork
from seed_rl.types import ArraySpec, EnvironmentSpec, EnvOutput

T, B, A = 5, 3, 4
SPEC = EnvironmentSpec(ArraySpec((6,), "float32"), ArraySpec((), "int32", (0,), (A - 1,)))


def network(start_at_zero=False, **options):
    config = NetworkConfig(**{"lstm_size": 8} | options)
    return DuelingNetwork(config, SPEC, A, units=16, start_at_zero=start_at_zero)


def random_unroll(seed=0):
    rng = np.random.default_rng(seed)
    env = EnvOutput(
        rng.normal(size=(T, B)).astype(np.float32),
        rng.random((T, B)) < 0.3,
        np.zeros((T, B), bool),
        rng.normal(size=(T, B, 6)).astype(np.float32),
    )
    return tf.nest.map_structure(tf.constant, (rng.integers(0, A, (T, B)).astype(np.int32), env))


def test_q_is_value_plus_advantage_over_the_mean():
    net = network(lstm_size=0)
    prev_action, env = random_unroll()
    q, _ = net.unroll(prev_action, env, ())
    features, _ = net.trunk.unroll(prev_action, env, ())

    def stream(hidden, last):
        relu = np.maximum(features.numpy() @ hidden.kernel.numpy() + hidden.bias.numpy(), 0)
        return relu @ last.kernel.numpy() + last.bias.numpy()

    value, advantage = stream(net._value_hidden, net._value), stream(net._advantage_hidden, net._advantage)
    expected = np.zeros((T, B, A))
    for t in range(T):
        for b in range(B):
            for a in range(A):
                expected[t, b, a] = value[t, b, 0] + advantage[t, b, a] - sum(advantage[t, b]) / A
    np.testing.assert_allclose(q, expected, atol=1e-5)


def test_an_unroll_equals_single_steps():
    net = network()
    prev_action, env = random_unroll()
    state = net.trunk.initial_state(B)
    whole, last = net.unroll(prev_action, env, state)
    assert whole.shape == (T, B, A)
    for t in range(T):
        step = tf.nest.map_structure(lambda x, t=t: x[t : t + 1], (prev_action, env))
        q, state = net.unroll(*step, state)
        np.testing.assert_allclose(whole[t], q[0], atol=1e-5)
    tf.nest.map_structure(lambda x, y: np.testing.assert_allclose(x, y, atol=1e-5), last, state)


def test_every_variable_gets_a_gradient_and_is_in_the_checkpoint(tmp_path):
    net, other = network(), network()
    prev_action, env = random_unroll()
    with tf.GradientTape() as tape:
        q, _ = net.unroll(prev_action, env, net.trunk.initial_state(B))
        loss = tf.reduce_sum(q[..., 0])
    for variable, gradient in zip(
        net.trainable_variables, tape.gradient(loss, net.trainable_variables), strict=True
    ):
        assert np.abs(gradient).max() > 0, variable.path
    path = tf.train.Checkpoint(net=net).save(str(tmp_path / "c"))
    tf.train.Checkpoint(net=other).restore(path).assert_consumed()
    for a, b in zip(net.trainable_variables, other.trainable_variables, strict=True):
        np.testing.assert_array_equal(a, b)
