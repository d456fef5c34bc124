import numpy as np
import pytest
import tensorflow as tf

from seed_rl.ops.return_distributions import (
    cross_entropy,
    entropy,
    huber,
    midpoints,
    project,
    quantile_huber_loss,
    support,
)

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


BATCH, K = 20, 7


def slow_projection(values, probabilities, atoms):
    """Algorithm 1 of the paper: each value's probability goes to the atoms below and above it."""
    v_min, v_max = float(atoms[0]), float(atoms[-1])
    spacing = (v_max - v_min) / (len(atoms) - 1)
    projected = np.zeros((len(values), len(atoms)))
    for b in range(len(values)):
        for j in range(values.shape[1]):
            position = (min(max(values[b, j], v_min), v_max) - v_min) / spacing
            low, high = int(np.floor(position + 1e-6)), int(np.ceil(position - 1e-6))
            if low == high:
                projected[b, low] += probabilities[b, j]
            else:
                projected[b, low] += probabilities[b, j] * (high - position)
                projected[b, high] += probabilities[b, j] * (position - low)
    return projected


def distributions(seed=0, size=K):
    probabilities = np.random.default_rng(seed).random((BATCH, size)).astype(np.float32)
    return probabilities / probabilities.sum(1, keepdims=True)


@pytest.mark.parametrize(("v_min", "v_max", "num_atoms"), [(-10, 10, 51), (0, 3, 4), (-1, 0.5, 2)])
def test_projection_against_the_papers_algorithm(v_min, v_max, num_atoms):
    atoms = support(v_min, v_max, num_atoms)
    values = np.random.default_rng(1).normal(0, 6, (BATCH, K)).astype(np.float32)
    values[0] = np.resize(atoms, K)  # On the atoms themselves.
    found = project(tf.constant(values), tf.constant(distributions()), atoms)
    np.testing.assert_allclose(found, slow_projection(values, distributions(), atoms), atol=1e-5)
    np.testing.assert_allclose(tf.reduce_sum(found, -1), np.ones(BATCH), rtol=1e-5)


def test_cross_entropy_against_numpy_and_its_gradient():
    target, logits = distributions(3), np.random.default_rng(4).normal(0, 5, (BATCH, K)).astype(np.float32)
    softmax = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    expected = [
        -sum(t * np.log(p) for t, p in zip(*rows, strict=True)) for rows in zip(target, softmax, strict=True)
    ]
    variable = tf.Variable(logits)
    with tf.GradientTape() as tape:
        loss = cross_entropy(tf.constant(target), variable)
    np.testing.assert_allclose(loss, expected, rtol=1e-4)
    np.testing.assert_allclose(tape.gradient(loss, variable), softmax - target, atol=1e-5)


def test_entropy_with_probabilities_of_zero():
    found = entropy(tf.constant([[1.0, 0.0, 0.0, 0.0], [0.25, 0.25, 0.25, 0.25], [0.5, 0.5, 0.0, 0.0]]))
    np.testing.assert_allclose(found, [0.0, np.log(4), np.log(2)], rtol=1e-6)
    target = tf.constant(distributions())
    np.testing.assert_allclose(cross_entropy(target, tf.math.log(target)), entropy(target), rtol=1e-5)
