"""The target network: a copy of the network that learns, which follows it late or slowly."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from seed_rl.types import EnvOutput


def copy_weights(online: Any, target: Any, rate: float = 1.0) -> None:
    """Moves a Keras layer's variables by a share of the way towards another's of the same structure.

    A rate of 1 copies (Mnih et al., 2015), a small one makes the target a running mean (Polyak averaging;
    Lillicrap et al., 2015, section 3).
    """
    for variable, follower in zip(online.variables, target.variables, strict=True):
        if rate == 1.0:
            follower.assign(variable)
        else:
            old = tf.convert_to_tensor(follower)
            share = tf.cast(rate, old.dtype)
            follower.assign(old + share * (tf.convert_to_tensor(variable) - old))


def copy_weights_when_due(
    online: Any, target: Any, iteration: tf.Tensor, every: int, rate: float = 1.0
) -> None:
    """Calls `copy_weights` after each `every`-th update; may be traced. `iteration` counts from 1."""

    def copy() -> tf.Tensor:
        copy_weights(online, target, rate)
        return tf.constant(True)

    tf.cond(tf.equal(iteration % every, 0), copy, lambda: tf.constant(False))


def observe_in_all(networks: Sequence[Any], env: EnvOutput) -> None:
    """Updates the running statistics of observations `[S, B, ...]`, and keeps them the same in all networks.

    These are Keras layers with a `trunk`, and the same variables that are not trained.
    """
    first, *others = networks
    first.trunk.observe(env)
    for network in others:
        pairs = zip(first.non_trainable_variables, network.non_trainable_variables, strict=True)
        for variable, follower in pairs:
            follower.assign(variable)
