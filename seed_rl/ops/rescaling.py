"""Scales of rewards, for losses, and of values: R2D2's rescaling and its inverse."""

import tensorflow as tf


def clip_reward(reward: tf.Tensor, max_abs_reward: float) -> tf.Tensor:
    """Rewards limited to `[-max_abs_reward, max_abs_reward]`; 0 leaves them as they are. Any shape."""
    return tf.clip_by_value(reward, -max_abs_reward, max_abs_reward) if max_abs_reward else reward


def soft_asymmetric(reward: tf.Tensor) -> tf.Tensor:
    """Rewards squeezed into (-1.5, 5), so that losses weigh less than gains. Any shape.

    `5 tanh(r / 5)`, times 0.3 where the reward is negative: what IMPALA's code does on DMLab-30 (its paper,
    Espeholt et al. 2018, figure D.1, "optimistic asymmetric clipping", writes it without the division).
    """
    squeezed = 5.0 * tf.tanh(reward / 5.0)
    return tf.where(reward < 0.0, 0.3 * squeezed, squeezed)


def rescale(x: tf.Tensor, epsilon: float = 1e-3) -> tf.Tensor:
    """`h(x) = sign(x) (sqrt(|x| + 1) - 1) + epsilon x`, elementwise; any shape, float32.

    See Kapturowski et al., 2019, section 2.3, and Pohlen et al., 2018. Written as `x / (sqrt(|x| + 1) + 1) +
    epsilon x`, which is equal and keeps float32's precision near 0.
    """
    return x / (tf.sqrt(tf.abs(x) + 1.0) + 1.0) + epsilon * x


def undo_rescale(x: tf.Tensor, epsilon: float = 1e-3) -> tf.Tensor:
    """The inverse of `rescale`, for an epsilon above 0.

    `sign(x) (s^2 - 1)` with `s = (sqrt(1 + 4 epsilon y) - 1) / (2 epsilon)` and `y = |x| + 1 + epsilon`,
    where s is written as `2 y / (sqrt(1 + 4 epsilon y) + 1)`: the difference would lose most of float32's
    precision.
    """
    y = tf.abs(x) + 1.0 + epsilon
    s = 2.0 * y / (tf.sqrt(1.0 + 4.0 * epsilon * y) + 1.0)
    return tf.sign(x) * (tf.square(s) - 1.0)
