import numpy as np
import pytest
import tensorflow as tf

from seed_rl.ops.quantiles import huber, midpoints, quantile_huber_loss

B, N, M = 6, 5, 7


def slow(quantiles, fractions, targets, kappa):
    losses = np.zeros(B)
    for b in range(B):
        for i in range(N):
            for j in range(M):
                delta = targets[b, j] - quantiles[b, i]
                size = abs(delta)
                huber = 0.5 * delta**2 if size <= kappa else kappa * (size - 0.5 * kappa)
                losses[b] += abs(fractions[b, i] - (delta < 0)) * huber / kappa / M
    return losses


@pytest.mark.parametrize("kappa", [0.1, 1.0, 4.0])
def test_against_numpy(kappa):
    rng = np.random.default_rng(0)
    quantiles, targets = (rng.normal(0, 2, (B, n)).astype(np.float32) for n in (N, M))
    fractions = rng.random((B, N)).astype(np.float32)
    found = quantile_huber_loss(*map(tf.constant, (quantiles, fractions, targets)), kappa)
    np.testing.assert_allclose(found, slow(quantiles, fractions, targets, kappa), rtol=1e-5)


def test_midpoints():
    found = midpoints(4)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, [0.125, 0.375, 0.625, 0.875])


def slow_huber(x, kappa):
    return 0.5 * x**2 if abs(x) <= kappa else kappa * (abs(x) - 0.5 * kappa)


@pytest.mark.parametrize("kappa", [0.5, 1.0, 3.0])
def test_huber_against_numpy(kappa):
    x = np.array([-1e4, -3.0, -1.0, -0.3, 0.0, 1e-3, 0.5, 0.999, 1.0, 1.001, 2.0, 50.0], np.float32)
    np.testing.assert_allclose(huber(x, kappa), [slow_huber(v, kappa) for v in x], rtol=1e-6)


def test_the_derivative_is_the_clipped_error():
    x = tf.constant([-5.0, -0.4, 0.0, 0.7, 3.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = tf.reduce_sum(huber(x))
    np.testing.assert_allclose(tape.gradient(loss, x), [-1.0, -0.4, 0.0, 0.7, 1.0])
