"""Generalized advantages (Schulman et al., "High-Dimensional Continuous Control", 2016); lambda-returns."""

import tensorflow as tf


def discounted_sums(x: tf.Tensor, carries: tf.Tensor) -> tf.Tensor:
    """`y_t = x_t + carries_t y_{t+1}`, with `y_T = 0`: `[T, B]`; T must be known when this is traced."""
    sums = tf.unstack(x)
    # An unrolled loop: tf.scan takes about twice as long on a CPU.
    for t, carry in reversed(list(enumerate(tf.unstack(carries)[:-1]))):
        sums[t] += carry * sums[t + 1]
    return tf.stack(sums)


def gae(
    rewards: tf.Tensor, discounts: tf.Tensor, values: tf.Tensor, valid: tf.Tensor, lambda_: float
) -> tf.Tensor:
    """Advantages of T transitions, time-major: `A_t = delta_t + gamma_t lambda A_{t+1}` (equation 16).

    `delta_t = r_t + gamma_t V(x_{t+1}) - V(x_t)`. Where an episode was cut short, its last step's value
    bootstraps, and nothing of the next episode is added.

    Args:
      rewards: float32 `[T, B]`, reward of each transition; T must be known when this is traced.
      discounts: float32 `[T, B]`, gamma, and 0 where the transition ends its episode.
      values: float32 `[T + 1, B]`, V at each step; transition t goes from step t to step t + 1.
      valid: bool `[T, B]`, False where a transition is not experience (types.py, "Episode ends").
      lambda_: 0 to 1.

    Returns:
      Advantages float32 `[T, B]`, 0 where a transition is not experience. No gradient flows through them.
    """
    deltas = tf.where(valid, rewards + discounts * values[1:] - values[:-1], 0.0)
    carries = tf.where(valid, discounts * lambda_, 0.0)
    return tf.stop_gradient(discounted_sums(deltas, carries))


def lambda_returns(
    rewards: tf.Tensor, discounts: tf.Tensor, values: tf.Tensor, valid: tf.Tensor, lambda_: float
) -> tf.Tensor:
    """`R_t = r_t + gamma_t (lambda R_{t+1} + (1 - lambda) V(x_{t+1}))`, with `R_T = V(x_T)`: `[T, B]`.

    These are Peng's Q(lambda) (Peng & Williams, 1994), as in PQN (Gallici et al., 2024), if V is the largest
    Q-value. They are the values plus the generalized advantages, whose arguments these are.

    Returns:
      Returns float32 `[T, B]`; where a transition is not experience, its first step's value. No gradient
      flows through them.
    """
    return tf.stop_gradient(values[:-1]) + gae(rewards, discounts, values, valid, lambda_)
