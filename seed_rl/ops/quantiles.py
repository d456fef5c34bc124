"""The Huber loss, and quantiles of returns: IQN (Dabney et al., "Implicit Quantile Networks", 2018)."""

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
    """`sum_i 1/M sum_j |tau_i - 1[delta_ij < 0]| L_kappa(delta_ij) / kappa` (equations 2 and 3).

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


def midpoints(number: int) -> np.ndarray:
    """The middles of so many equal parts of [0, 1], float32 `[number]`.

    The mean of a distribution's quantiles there approximates its mean without the noise of random fractions.
    """
    return ((np.arange(number) + 0.5) / number).astype(np.float32)
