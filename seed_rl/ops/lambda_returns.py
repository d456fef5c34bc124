"""Lambda-returns of Q-learning: Q(lambda) (Peng & Williams, 1994), as in PQN (Gallici et al., 2024)."""

import tensorflow as tf


def lambda_returns(
    rewards: tf.Tensor, discounts: tf.Tensor, values: tf.Tensor, valid: tf.Tensor, lambda_: float
) -> tf.Tensor:
    """`R_t = r_t + gamma_t (lambda R_{t+1} + (1 - lambda) V(x_{t+1}))`, time-major; `R_T = V(x_T)`.

    In Q-learning, V is the largest Q-value. Where an episode was cut short, its last step's value bootstraps.

    Args:
      rewards: float32 `[T, B]`, reward of each transition.
      discounts: float32 `[T, B]`, gamma, and 0 where the transition ends its episode.
      values: float32 `[T + 1, B]`, V at each step; transition t goes from step t to step t + 1.
      valid: bool `[T, B]`, False where a transition is not experience (types.py, "Episode ends").
      lambda_: 0 to 1.

    Returns:
      Returns float32 `[T, B]`; where a transition is not experience, its first step's value. No gradient
      flows through them.
    """

    def following(later: tf.Tensor, step: tuple[tf.Tensor, ...]) -> tf.Tensor:
        reward, discount, value, next_value, is_valid = step
        return tf.where(is_valid, reward + discount * (lambda_ * later + (1.0 - lambda_) * next_value), value)

    steps = rewards, discounts, values[:-1], values[1:], valid
    return tf.stop_gradient(tf.scan(following, steps, initializer=values[-1], reverse=True))
