"""Clipping of raw rewards, for losses."""

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
