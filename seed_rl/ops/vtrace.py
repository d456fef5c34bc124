"""V-trace targets and advantages (Espeholt et al., "IMPALA", 2018, section 4.1 and equation 1)."""

from typing import NamedTuple

import tensorflow as tf

from seed_rl.ops.returns import discounted_sums


class VTraceOutput(NamedTuple):
    """Result of `vtrace`; float32 `[T, B]`, and no gradient flows through any of it.

    Attributes:
      targets: `v_s`, the targets that the baseline is regressed to.
      advantages: `rho_s (r_s + gamma_s v_{s+1} - V(x_s))`, the weights of the policy gradient (section 4.2).
      rhos: the clipped importance weights `rho_s` of the temporal differences.
    """

    targets: tf.Tensor
    advantages: tf.Tensor
    rhos: tf.Tensor


def vtrace(
    log_rhos: tf.Tensor,
    discounts: tf.Tensor,
    rewards: tf.Tensor,
    values: tf.Tensor,
    bootstrap_value: tf.Tensor,
    valid: tf.Tensor | None = None,
    *,
    lambda_: float = 1.0,
    clip_rho_threshold: float | None = 1.0,
    clip_pg_rho_threshold: float | None = 1.0,
    clip_c_threshold: float | None = 1.0,
) -> VTraceOutput:
    """V-trace for T transitions, time-major; T must be known when this is traced.

    `v_s = V(x_s) + rho_s delta_s + gamma_s c_s (v_{s+1} - V(x_{s+1}))` (remark 1 of the paper), with
    `delta_s = r_s + gamma_s V(x_{s+1}) - V(x_s)`, and importance weights that are clipped at a threshold
    (None: not clipped).

    Args:
      log_rhos: `[T, B]` log of target over behaviour probability of the actions taken.
      discounts: `[T, B]` gamma, and 0 where the transition ends its episode: `gamma * (1 - done[t + 1])`.
      rewards: `[T, B]` reward of each transition.
      values: `[T, B]` V at the states that the transitions start from.
      bootstrap_value: `[B]` V at the state after the last transition.
      valid: bool `[T, B]`, False where a transition is not experience (types.py, "Episode ends"): its
        importance weights are 0, so its target is its value and its advantage 0. None: all are experience.
      lambda_: factor of the c weights (remark 2).
      clip_rho_threshold: rho-bar; determines the fixed point of the targets.
      clip_pg_rho_threshold: rho-bar of the policy gradient.
      clip_c_threshold: c-bar; determines how fast that fixed point is reached.
    """
    with tf.name_scope("vtrace"):
        rhos = tf.exp(log_rhos)
        if valid is not None:
            rhos = tf.where(valid, rhos, 0.0)
        clipped_rhos = _clip(rhos, clip_rho_threshold)
        next_values = tf.concat([values[1:], bootstrap_value[tf.newaxis]], 0)
        deltas = clipped_rhos * (rewards + discounts * next_values - values)
        carries = discounts * lambda_ * _clip(rhos, clip_c_threshold)
        targets = values + discounted_sums(deltas, carries)
        next_targets = tf.concat([targets[1:], bootstrap_value[tf.newaxis]], 0)
        advantages = _clip(rhos, clip_pg_rho_threshold) * (rewards + discounts * next_targets - values)
        return VTraceOutput(*(tf.stop_gradient(x) for x in (targets, advantages, clipped_rhos)))


def _clip(rhos: tf.Tensor, threshold: float | None) -> tf.Tensor:
    return rhos if threshold is None else tf.minimum(rhos, threshold)
