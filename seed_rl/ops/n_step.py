"""n-step targets within an unroll (R2D2: Kapturowski et al., 2019, section 2.3)."""

import tensorflow as tf


def n_step_targets(
    rewards: tf.Tensor, discounts: tf.Tensor, values: tf.Tensor, cut: tf.Tensor, n: int
) -> tf.Tensor:
    """`r_t + gamma_t r_{t+1} + ... + gamma_t ... gamma_{t+n-1} V(x_{t+n})`, time-major.

    Where fewer than n transitions are left, the target bootstraps from the value after the last one: at the
    end of the unroll, and where an episode was cut short. A discount of 0 ends the sum.

    Args:
      rewards: `[T, B]` reward of each transition.
      discounts: `[T, B]` gamma, and 0 where the transition ends its episode.
      values: `[T + 1, B]` V at each step; transition t goes from step t to step t + 1.
      cut: bool `[T, B]`, True where transition t is not experience because step t was the last of an episode
        cut short (types.py, "Episode ends").
      n: transitions, at least 1.

    Returns:
      Targets `[T, B]`; at a step that is cut, the step's own value. Gradients flow through `values`.

    Raises:
      ValueError: n is less than 1.
    """
    if n < 1:
        raise ValueError(f"An n-step target needs n >= 1, not {n}.")
    targets = values
    for _ in range(n):
        longer = tf.where(cut, values[:-1], rewards + discounts * targets[1:])
        targets = tf.concat([longer, values[-1:]], 0)
    return targets[:-1]
