import keras
import numpy as np
import tensorflow as tf

from seed_rl.networks.recurrent import LSTM, reset, unroll

T, B, D, H = 7, 3, 5, 4


class Counter:
    """A core whose state and output count the steps since the reset."""

    def initial_state(self, batch_size):
        return {"count": tf.fill([batch_size], 10.0)}

    def project(self, inputs):
        return inputs

    def step(self, projected, state):
        count = state["count"] + projected[:, 0]
        return count[:, tf.newaxis], {"count": count}


def random_inputs(seed=0):
    rng = np.random.default_rng(seed)
    done = rng.random((T, B)) < 0.3
    done[0] = [True, False, False]
    return tf.constant(rng.normal(size=(T, B, D)), tf.float32), tf.constant(done)


def random_state(seed=1):
    rng = np.random.default_rng(seed)
    return {name: tf.constant(rng.normal(size=(B, H)), tf.float32) for name in "ch"}


def test_resets_to_the_initial_state_before_the_step():
    done = np.zeros((4, 2), bool)
    done[0, 0] = done[2, 1] = True
    outputs, state = unroll(
        Counter(), tf.ones([4, 2, 1]), tf.constant(done), {"count": tf.constant([100.0] * 2)}
    )
    np.testing.assert_array_equal(outputs[..., 0], [[11, 101], [12, 102], [13, 11], [14, 12]])
    np.testing.assert_array_equal(state["count"], [14, 12])


def test_lstm_equals_keras_step_by_step():
    core, cell = LSTM(H), keras.layers.LSTMCell(H)
    inputs, done = random_inputs()
    state = random_state()
    outputs, last = unroll(core, inputs, done, state)
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
        outputs, _ = unroll(core, inputs, done, state)
        loss = tf.reduce_sum(outputs[-1])
    gradient = np.abs(tape.gradient(loss, inputs).numpy()).sum((1, 2))
    assert (gradient[:4] == 0).all()
    assert (gradient[4:] > 0).all()


def test_reset_even_forgets_nan():
    state = reset({"x": tf.fill([2, 3], np.nan)}, {"x": tf.zeros([2, 3])}, tf.constant([True, True]))
    np.testing.assert_array_equal(state["x"], np.zeros((2, 3)))
