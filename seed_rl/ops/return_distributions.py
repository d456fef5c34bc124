"""Distributions of returns: quantiles (IQN: Dabney et al., 2018), and atoms (C51: Bellemare et al., 2017)."""

import numpy as np
import tensorflow as tf


def huber(x: tf.Tensor, kappa: float = 1.0) -> tf.Tensor:
    """`x^2 / 2` up to `|x| = kappa`, and beyond it the line `kappa (|x| - kappa / 2)`; any shape, float32.

    Its derivative is x clipped to `[-kappa, kappa]`: with kappa = 1, the clipped error of Mnih et al.
    """
    size = tf.abs(x)
    inside = tf.minimum(size, kappa)
    return inside * (size - 0.5 * inside)


def quantile_huber_loss(
    quantiles: tf.Tensor, fractions: tf.Tensor, targets: tf.Tensor, kappa: float = 1.0
) -> tf.Tensor:
    """`sum_i 1/M sum_j |tau_i - 1[delta_ij < 0]| L_kappa(delta_ij) / kappa` (IQN, equations 2 and 3).

    Here `delta_ij = target_j - quantile_i`, and L is the Huber loss. The quantiles that minimize it are those
    of the targets' distribution (exactly so as kappa goes to 0).

    Args:
      quantiles: `[B, N]`, estimates at the fractions.
      fractions: `[B, N]`, tau, from 0 to 1.
      targets: `[B, M]`, samples of the target's distribution.
      kappa: where the loss becomes linear, in units of return; above 0.

    Returns:
      The loss `[B]`.
    """
    delta = targets[:, tf.newaxis, :] - quantiles[:, :, tf.newaxis]
    below = tf.cast(delta < 0.0, delta.dtype)
    weights = tf.abs(fractions[:, :, tf.newaxis] - tf.stop_gradient(below))
    return tf.reduce_sum(tf.reduce_mean(weights * huber(delta, kappa) / kappa, -1), -1)


def project(values: tf.Tensor, probabilities: tf.Tensor, atoms: np.ndarray) -> tf.Tensor:
    """Moves probability from arbitrary values to the nearest atoms, in proportion to how near they are.

    `sum_j [1 - |[value_j]_{v_min}^{v_max} - z_i| / Delta z]_0^1 p_j` (equation 7). It keeps the mean of
    whatever lies between the lowest and the highest atom. Values and their probabilities are `[B, K]`, and
    the atoms' probabilities `[B, N]`; there are at least two atoms, evenly spaced.
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
