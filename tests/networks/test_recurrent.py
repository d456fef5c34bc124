import keras
import numpy as np
import pytest
import tensorflow as tf

from seed_rl.networks.recurrent import LSTM

T, B, D, H = 7, 3, 5, 4


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
