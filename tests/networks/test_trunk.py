"""The trunk's state, its extra inputs, and what passes the end of an episode."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from seed_rl.networks.networks_config import NetworkConfig
from seed_rl.networks.trunk import LSTM, Trunk, last_action_and_reward
from seed_rl.types import ArraySpec, EnvironmentSpec, EnvOutput

ACTION = ArraySpec((), "int32", (0,), (3,))
VECTOR = ArraySpec((5,), "float32")
FRAME = ArraySpec((10, 9), "uint8")
DICT = {"image": ArraySpec((36, 36), "uint8"), "v": VECTOR}


def trunk(spec=VECTOR, **options):
    return Trunk(NetworkConfig(**{"lstm_size": 8} | options), EnvironmentSpec(spec, ACTION))


def test_state_is_only_what_is_needed():
    assert trunk(lstm_size=0).initial_state(2) == ()
    assert sorted(trunk().initial_state(2)) == ["core"]
    assert sorted(trunk(FRAME, frame_stack=4, lstm_size=0).initial_state(2)) == ["frames"]
    assert sorted(trunk(FRAME, frame_stack=4).initial_state(2)) == ["core", "frames"]
    assert list(trunk(DICT, frame_stack=2).initial_state(2)["frames"]) == ["image"]


@pytest.mark.parametrize(("limit", "clipped"), [(1.0, (0.5, -1)), (5.0, (0.5, -5)), (0.0, (0.5, -7))])
def test_last_action_and_reward(limit, clipped):
    env = EnvOutput(tf.constant([[0.5, -7.0, 3.0]]), tf.constant([[False, False, True]]), None, None)
    output = last_action_and_reward(ACTION, tf.constant([[1, 3, 2]]), env, limit)
    one, other = clipped
    np.testing.assert_array_equal(output, [[[0, 1, 0, 0, one], [0, 0, 0, 1, other], [0, 0, 0, 0, 0]]])


def test_the_last_action_is_scaled_by_bounds_that_are_far_out():
    env = EnvOutput(tf.zeros([1, 1]), tf.constant([[False]]), None, None)
    spec = ArraySpec((5,), "float32", (-2, 100, -np.inf, 1000, 77), (2, 500, np.inf, np.inf, 77))
    for action, expected in (
        ([1.5, 400.0, 3.0, 1003.0, 77.0], [1.5, 0.5, 3.0, 2.0, 0.0]),
        ([-2.0, 100.0, -99.0, 5000.0, 77.0], [-2.0, -1.0, -10.0, 10.0, 0.0]),
    ):
        box = last_action_and_reward(spec, tf.constant([[action]]), env, 1.0)
        np.testing.assert_array_equal(box, [[[*expected, 0]]])


T, B, D, H = 7, 3, 5, 4


def test_nothing_passes_an_episode_end():
    """An episode starts at the fourth step; the action and reward that led there are of the one before."""
    rng, net = np.random.default_rng(0), trunk(DICT, frame_stack=4)
    done = np.arange(T)[:, None] == np.array([3, 3, 3])
    image, v, other = rng.integers(0, 256, (T, B, 36, 36)), rng.normal(size=(T, B, 5)), np.arange(T) < 3
    reward, action = rng.normal(size=(T, B)), rng.integers(0, 4, (T, B))
    found = []
    for add in (0, 1):
        pixels, vector = (image + add * 99 * other[:, None, None, None]) % 256, v + add * other[:, None, None]
        led = add * (np.arange(T) <= 3)[:, None]
        observation = {"image": tf.constant(pixels, tf.uint8), "v": tf.constant(vector, tf.float32)}
        env = EnvOutput(tf.constant(reward + led, tf.float32), tf.constant(done), None, observation)
        found.append(net.unroll(tf.constant((action + led) % 4, tf.int32), env, net.initial_state(B))[0])
    # Matrix products of other shapes round differently.
    np.testing.assert_allclose(found[0][3:], found[1][3:], rtol=1e-5, atol=1e-5)
    assert np.abs(found[0][:3] - found[1][:3]).max() > 1e-6


def random_inputs(seed=0):
    rng = np.random.default_rng(seed)
    done = rng.random((T, B)) < 0.3
    done[0] = [True, False, False]
    return tf.constant(rng.normal(size=(T, B, D)), tf.float32), tf.constant(done)


def random_state(seed=1):
    rng = np.random.default_rng(seed)
    return {name: tf.constant(rng.normal(size=(B, H)), tf.float32) for name in "ch"}


def test_lstm_equals_keras_step_by_step():
    core, cell = LSTM(H), keras.layers.LSTMCell(H)
    inputs, done = random_inputs()
    state = random_state()
    outputs, last = core.unroll(inputs, done, state)
    cell.build((None, D))
    cell.set_weights([core._inputs.kernel, core._recurrent.kernel, core._inputs.bias])
    h, c = state["h"].numpy(), state["c"].numpy()
    for t in range(T):
        h, c = (np.where(done[t].numpy()[:, None], 0, x) for x in (h, c))
        output, (h, c) = cell(inputs[t], [h, c])
        np.testing.assert_allclose(outputs[t], output, atol=1e-5)
    np.testing.assert_allclose(last["h"], h, atol=1e-5)
    np.testing.assert_allclose(last["c"], c, atol=1e-5)


def test_no_gradient_flows_across_an_episode_end():
    core, (inputs, _), state = LSTM(H), random_inputs(), random_state()
    done = tf.constant(np.arange(T)[:, None] == np.array([4, 4, 4]))
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        outputs, _ = core.unroll(inputs, done, state)
        loss = tf.reduce_sum(outputs[-1])
    gradient = np.abs(tape.gradient(loss, inputs).numpy()).sum((1, 2))
    assert (gradient[:4] == 0).all()
    assert (gradient[4:] > 0).all()


def test_a_reset_even_forgets_nan():
    core, (inputs, _) = LSTM(H), random_inputs()
    state = tf.nest.map_structure(lambda x: tf.fill(x.shape, np.nan), random_state())
    outputs, _ = core.unroll(inputs[:1], tf.ones([1, B], tf.bool), state)
    assert np.isfinite(outputs).all()


@pytest.mark.parametrize(("initializer", "is_orthogonal"), [("orthogonal", True), ("glorot_uniform", False)])
def test_the_recurrent_kernel(initializer, is_orthogonal):
    core = LSTM(16, initializer)
    core.unroll(tf.zeros([1, 2, 3]), tf.zeros([1, 2], tf.bool), core.initial_state(2))
    (kernel,) = core._recurrent.get_weights()
    product = kernel @ kernel.T
    assert np.allclose(product, np.eye(16), atol=1e-5) == is_orthogonal
    if not is_orthogonal:
        limit = np.sqrt(6 / (16 + 64))
        assert np.abs(kernel).max() <= limit and np.abs(kernel).max() > 0.9 * limit
