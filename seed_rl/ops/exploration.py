"""Epsilon-greedy exploration: an epsilon for each environment (SEED RL, 2020, Table 8), or one for all."""

import numpy as np
import tensorflow as tf

from seed_rl.ops import draws


def training_epsilons(num_envs: int) -> np.ndarray:
    """`0.4^(1 + 7 i / (N - 1))` for environment i of N: float32 `[N]`, from 0.4 down to 0.4^8; 0.4 if N = 1.

    Environments that mostly explore and environments that mostly exploit play at the same time (Horgan et
    al., "Ape-X", 2018, section 4.1).
    """
    return (0.4 ** np.linspace(1.0, 8.0, num_envs)).astype(np.float32)


def annealed_epsilon(progress: tf.Tensor, initial: float, final: float, fraction: float) -> tf.Tensor:
    """From `initial` to `final` in a line over a fraction of the run, then `final` (Mnih et al., 2015).

    `progress` is the fraction of the run that is complete. It and epsilon are float32 scalars.
    """
    share = tf.minimum(progress / fraction, 1.0) if fraction else tf.ones_like(progress)
    return initial + share * (final - initial)


def epsilon_greedy(q_values: tf.Tensor, epsilons: tf.Tensor, allowed: tf.Tensor | None = None) -> tf.Tensor:
    """From values `[B, A]` to actions int64 `[B]`: the best or, with probability epsilon `[B]`, any one.

    If only some are `allowed`, bool `[B, A]`, any one of those; forbidden ones have values below all others.
    """
    greedy = tf.argmax(q_values, -1)
    explores = draws.uniform(tf.shape(greedy)) < epsilons
    if allowed is None:
        anything = draws.uniform(tf.shape(greedy), maxval=q_values.shape[-1], dtype=tf.int64)
    else:
        anything = tf.argmax(tf.where(allowed, draws.uniform(tf.shape(q_values)), -1.0), -1)
    return tf.where(explores, anything, greedy)
