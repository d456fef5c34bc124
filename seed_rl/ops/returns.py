"""Returns: generalized advantages (Schulman et al., 2016), lambda-returns, and n-step targets."""

from typing import NamedTuple

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
    """Advantages of T transitions, time-major: `A_t = delta_t + gamma_t lambda A_{t+1}`.

    It is equation 16 of "High-Dimensional Continuous Control", with `delta_t = r_t + gamma_t V(x_{t+1}) -
    V(x_t)`. Where an episode was cut short, its last step's value bootstraps, and nothing of the next episode
    is added.

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


def n_step_targets(
    rewards: tf.Tensor, discounts: tf.Tensor, values: tf.Tensor, cut: tf.Tensor, n: int
) -> tf.Tensor:
    """`r_t + gamma_t r_{t+1} + ... + gamma_t ... gamma_{t+n-1} V(x_{t+n})`, time-major.

    These are R2D2's (Kapturowski et al., 2019, section 2.3). Where fewer than n transitions are left, the
    target bootstraps from the value after the last one: at the end of the unroll, and where an episode was
    cut short. A discount of 0 ends the sum.

    Args:
      rewards: `[T, B]` reward of each transition.
      discounts: `[T, B]` gamma, and 0 where the transition ends its episode.
      values: `[T + 1, B]` V at each step; transition t goes from step t to step t + 1.
      cut: bool `[T, B]`, True where transition t is not experience because step t was the last of an episode
        cut short (types.py, "Episode ends").
      n: transitions, at least 1.

    Returns:
      Targets `[T, B]`; at a step that is cut, the step's own value. Gradients flow through `values`.
    """
    targets = values
    for _ in range(n):
        longer = tf.where(cut, values[:-1], rewards + discounts * targets[1:])
        targets = tf.concat([longer, values[-1:]], 0)
    return targets[:-1]


class NStepReturn(NamedTuple):
    """Parts of n-step returns, each `[B]`: the target of a value V is `reward + discount * V(x_step)`.

    Attributes:
      reward: float32, the discounted sum of rewards.
      discount: float32, the product of the discounts before the bootstrap; 0 where the episode ends first.
      step: int32, the step to bootstrap from, 0 to n: less than n where the episode was cut short.
    """

    reward: tf.Tensor
    discount: tf.Tensor
    step: tf.Tensor


def n_step_return(rewards: tf.Tensor, discounts: tf.Tensor, cut: tf.Tensor) -> NStepReturn:
    """The parts of the first transition's n-step target, for targets that are more than a number.

    `n_step_targets(rewards, discounts, values, cut, n)[0]` is `reward + discount * values[step]`. Where the
    first transition is not experience, the reward is 0, the discount 1 and the step 0. Arrays are `[n, B]`;
    n must be known when this is traced.
    """
    reward, discount = tf.zeros_like(rewards[0]), tf.ones_like(discounts[0])
    step, goes_on = tf.zeros_like(cut[0], tf.int32), tf.ones_like(cut[0])
    for t in range(rewards.shape[0]):
        goes_on = tf.logical_and(goes_on, tf.logical_not(cut[t]))
        reward += tf.where(goes_on, discount * rewards[t], 0.0)
        discount = tf.where(goes_on, discount * discounts[t], discount)
        step += tf.cast(goes_on, tf.int32)
    return NStepReturn(reward, discount, step)
