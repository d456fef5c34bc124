import numpy as np
import pytest
import tensorflow as tf

from seed_rl.ops.return_distributions import cross_entropy, entropy, huber, project

BATCH, K = 20, 7


@pytest.mark.parametrize("kappa", [0.5, 1.0, 3.0])
def test_huber_and_its_derivative_the_clipped_error_against_numpy(kappa):
    x = np.array([-1e4, -3.0, -1.0, -0.3, 0.0, 1e-3, 0.5, 0.999, 1.0, 1.001, 2.0, 50.0], np.float32)
    point = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(point)
        found = huber(point, kappa)
    expected = [0.5 * v**2 if abs(v) <= kappa else kappa * (abs(v) - 0.5 * kappa) for v in x]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    np.testing.assert_allclose(tape.gradient(found, point), x.clip(-kappa, kappa))


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
    atoms = np.linspace(v_min, v_max, num_atoms, dtype=np.float32)
    values = np.random.default_rng(1).normal(0, 6, (BATCH, K)).astype(np.float32)
    values[0] = np.resize(atoms, K)  # On the atoms themselves.
    found = project(tf.constant(values), tf.constant(distributions()), atoms)
    np.testing.assert_allclose(found, slow_projection(values, distributions(), atoms), atol=1e-5)
    np.testing.assert_allclose(tf.reduce_sum(found, -1), np.ones(BATCH), rtol=1e-5)


def test_entropy_with_probabilities_of_zero():
    found = entropy(tf.constant([[1.0, 0.0, 0.0, 0.0], [0.25, 0.25, 0.25, 0.25], [0.5, 0.5, 0.0, 0.0]]))
    np.testing.assert_allclose(found, [0.0, np.log(4), np.log(2)], rtol=1e-6)
    target = tf.constant(distributions())
    np.testing.assert_allclose(cross_entropy(target, tf.math.log(target)), entropy(target), rtol=1e-5)
