import numpy as np
import tensorflow as tf

from seed_rl.ops.categorical_returns import cross_entropy, entropy

B, K = 20, 7


def distributions(seed=0, size=K):
    probabilities = np.random.default_rng(seed).random((B, size)).astype(np.float32)
    return probabilities / probabilities.sum(1, keepdims=True)


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
