"""Munchausen reinforcement learning (Vieillard et al., 2020): the policy's log-probability as a reward."""

import tensorflow as tf


def scaled_log_policy(q_values: tf.Tensor, temperature: float) -> tf.Tensor:
    """`tau log pi`, with `pi = softmax(q / tau)`: `[..., A]` to `[..., A]`, at most 0.

    Written as `q - v - tau log sum_b exp((q_b - v) / tau)` with v the highest value (appendix B.1), which
    overflows for no q and keeps float32's precision at a small temperature.
    """
    advantages = q_values - tf.reduce_max(q_values, -1, keepdims=True)
    return advantages - temperature * tf.reduce_logsumexp(advantages / temperature, -1, keepdims=True)


def munchausen_bonus(
    q_values: tf.Tensor, action: tf.Tensor, alpha: float, temperature: float, lowest: float
) -> tf.Tensor:
    """`alpha [tau log pi(a|s)]_{lowest}^0`, which is added to the reward (equation 2 and section 3): `[B]`.

    `q_values` `[B, A]` are the target network's at the state that the action, integers `[B]`, was taken in.
    `temperature` is tau, above 0, and `lowest` is l_0, the lowest scaled log-probability that counts.
    """
    log_policy = tf.gather(scaled_log_policy(q_values, temperature), action, batch_dims=1)
    return alpha * tf.clip_by_value(log_policy, lowest, 0.0)


def soft_value(returns: tf.Tensor, q_values: tf.Tensor, temperature: float) -> tf.Tensor:
    """`sum_a pi(a|s) (z(s, a) - tau log pi(a|s))`, for each of K returns (equation 2; M-IQN: appendix B.1).

    `returns` `[B, A, K]` are z: the actions' values (K = 1) or quantiles of their returns. The policy pi is
    the softmax of their values, `q_values` `[B, A]`. The result is `[B, K]`.
    """
    log_policy = scaled_log_policy(q_values, temperature)[..., tf.newaxis]
    policy = tf.exp(log_policy / temperature)
    return tf.reduce_sum(policy * (returns - log_policy), 1)
