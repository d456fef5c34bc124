"""Distributions of returns over fixed atoms: C51 (Bellemare et al., "A Distributional Perspective", 2017)."""

import numpy as np
import tensorflow as tf


def support(v_min: float, v_max: float, num_atoms: int) -> np.ndarray:
    """The atoms `z_i = v_min + i (v_max - v_min) / (N - 1)`: float32 `[N]` (section 4)."""
    return np.linspace(v_min, v_max, num_atoms, dtype=np.float32)


def project(values: tf.Tensor, probabilities: tf.Tensor, atoms: np.ndarray) -> tf.Tensor:
    """Moves probability from arbitrary values to the nearest atoms, in proportion to how near they are.

    `sum_j [1 - |[value_j]_{v_min}^{v_max} - z_i| / Delta z]_0^1 p_j` (equation 7). It keeps the mean of
    whatever lies between the lowest and the highest atom. Values and their probabilities are `[B, K]`, and
    the atoms' probabilities `[B, N]`; there are at least two atoms.
    """
    spacing = (atoms[-1] - atoms[0]) / (len(atoms) - 1)
    values = tf.clip_by_value(values, atoms[0], atoms[-1])
    distances = tf.abs(values[:, tf.newaxis, :] - atoms[:, np.newaxis]) / spacing
    shares = tf.clip_by_value(1.0 - distances, 0.0, 1.0)
    return tf.reduce_sum(shares * probabilities[:, tf.newaxis, :], -1)


def cross_entropy(target: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """`-sum_i target_i log p_i`, with p the softmax of `logits` (algorithm 1); `[..., N]` to `[...]`."""
    return -tf.reduce_sum(target * tf.nn.log_softmax(logits), -1)


def entropy(probabilities: tf.Tensor) -> tf.Tensor:
    """`-sum_i p_i log p_i` in nats: `[..., N]` to `[...]`. Cross entropy less this is the KL divergence."""
    return -tf.reduce_sum(tf.math.xlogy(probabilities, probabilities), -1)
