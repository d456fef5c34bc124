"""The clipped losses of PPO (Schulman et al., "Proximal Policy Optimization Algorithms", 2017)."""

import tensorflow as tf


def clipped_policy_loss(log_ratio: tf.Tensor, advantages: tf.Tensor, clip: float) -> tf.Tensor:
    """`-min(r A, clip(r, 1 - epsilon, 1 + epsilon) A)` (equation 7), for each action; any shape.

    `log_ratio` is the log of r: the probability of the action now, over that when it was chosen.
    """
    ratio = tf.exp(log_ratio)
    clipped = tf.clip_by_value(ratio, 1.0 - clip, 1.0 + clip)
    return -tf.minimum(ratio * advantages, clipped * advantages)


def value_loss(values: tf.Tensor, targets: tf.Tensor, old_values: tf.Tensor, clip: float | None) -> tf.Tensor:
    """Half the squared error of values; any shape.

    With `clip`, the larger one of this and of the error of values limited to `old_values` +- `clip`, so that
    moving farther does not pay (not in the paper, but in its authors' code; Engstrom et al.,
    "Implementation Matters in Deep Policy Gradients", 2020, section 3).
    `old_values` are those when the actions were chosen; the limit is in units of (scaled) returns.
    """
    errors = tf.square(targets - values)
    if clip is not None:
        limited = old_values + tf.clip_by_value(values - old_values, -clip, clip)
        errors = tf.maximum(errors, tf.square(targets - limited))
    return 0.5 * errors
