import numpy as np
import pytest
import tensorflow as tf

from seed_rl.ops.categorical_returns import cross_entropy, entropy, project, support

B, K = 20, 7


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
    probabilities = np.random.default_rng(seed).random((B, size)).astype(np.float32)
    return probabilities / probabilities.sum(1, keepdims=True)


@pytest.mark.parametrize(("v_min", "v_max", "num_atoms"), [(-10, 10, 51), (0, 3, 4), (-1, 0.5, 2)])
def test_projection_against_the_papers_algorithm(v_min, v_max, num_atoms):
    atoms = support(v_min, v_max, num_atoms)
    values = np.random.default_rng(1).normal(0, 6, (B, K)).astype(np.float32)
    values[0] = np.resize(atoms, K)  # On the atoms themselves.
    found = project(tf.constant(values), tf.constant(distributions()), atoms)
    np.testing.assert_allclose(found, slow_projection(values, distributions(), atoms), atol=1e-5)
    np.testing.assert_allclose(tf.reduce_sum(found, -1), np.ones(B), rtol=1e-5)


def test_cross_entropy_against_numpy_and_its_gradient():
    target, logits = distributions(3), np.random.default_rng(4).normal(0, 5, (B, K)).astype(np.float32)
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
