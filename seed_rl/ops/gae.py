"""Generalized advantage estimation (Schulman et al., "High-Dimensional Continuous Control", 2016)."""

import tensorflow as tf


def gae(
    rewards: tf.Tensor, discounts: tf.Tensor, values: tf.Tensor, valid: tf.Tensor, lambda_: float
) -> tf.Tensor:
    """Advantages of T transitions, time-major: `A_t = delta_t + gamma_t lambda A_{t+1}` (equation 16).

    `delta_t = r_t + gamma_t V(x_{t+1}) - V(x_t)`. Where an episode was cut short, its last step's value
    bootstraps, and nothing of the next episode is added.

    Args:
      rewards: float32 `[T, B]`, reward of each transition.
      discounts: float32 `[T, B]`, gamma, and 0 where the transition ends its episode.
      values: float32 `[T + 1, B]`, V at each step; transition t goes from step t to step t + 1.
      valid: bool `[T, B]`, False where a transition is not experience (types.py, "Episode ends").
      lambda_: 0 to 1.

    Returns:
      Advantages float32 `[T, B]`, 0 where a transition is not experience. No gradient flows through them.
    """
    deltas = tf.where(valid, rewards + discounts * values[1:] - values[:-1], 0.0)
    carries = tf.where(valid, discounts * lambda_, 0.0)
    advantages = tf.scan(
        lambda following, step: step[0] + step[1] * following,
        (deltas, carries),
        initializer=tf.zeros_like(deltas[0]),
        reverse=True,
    )
    return tf.stop_gradient(advantages)
