"""Parts of training on rollouts: the value of the last step, and the source of minibatches."""

from typing import Any

import tensorflow as tf

from seed_rl.networks.trunk import Trunk
from seed_rl.types import Sample

# As inference allows in an agent's answer: what is larger overflows in the gradient.
_LARGEST_VALUE = 1e8


def last_step(trunk: Trunk, rollout: Sample) -> tuple[Any, ...]:
    """Arguments of a network's `unroll` for its output at the last step of a rollout `[T + 1, B, ...]`.

    They are the last step alone, with the frames before it. If the network has an LSTM, they are the whole
    rollout, because only that gives the state before the last step. `rollout.initial_state` is the network's.
    """
    if trunk.is_recurrent:
        return rollout.prev_action, rollout.env, rollout.initial_state
    states = trunk.states(rollout.env, rollout.initial_state)
    last = tf.nest.map_structure(lambda x: x[-1:], (rollout.prev_action, rollout.env))
    return (*last, tf.nest.map_structure(lambda x: x[-1], states))


def bootstrapped(value: tf.Tensor, truncated: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The value to bootstrap from `[B]`, and which transitions are experience `[T, B]` (see types.py).

    The last step has not been acted on, so nothing has checked yet whether the network overflows there. If it
    does, the last transition is left out. `value` `[B]` is that of the last step; `truncated` is `[T + 1,
    B]`.
    """
    is_good = tf.abs(value) < _LARGEST_VALUE  # False for NaN.
    valid = tf.logical_not(truncated[:-1])
    valid = tf.concat([valid[:-1], (valid[-1] & is_good)[tf.newaxis]], 0)
    return tf.where(is_good, value, 0.0), valid


def parts_of(trunk: Trunk, unrolls: Sample) -> Sample:
    """Units that minibatches are drawn from: whole unrolls if the network is recurrent, else transitions.

    From unrolls `[T, B, ...]`, without the last steps of a rollout, from which no transition starts, to the
    same or to transitions `[1, T * B, ...]`, each with the state before it.
    """
    if trunk.is_recurrent:
        return unrolls
    states = trunk.states(unrolls.env, unrolls.initial_state)
    steps = (unrolls.prev_action, unrolls.env, unrolls.agent)
    prev_action, env, agent = tf.nest.map_structure(lambda x: tf.reshape(x, [1, -1, *x.shape[2:]]), steps)
    states = tf.nest.map_structure(lambda x: tf.reshape(x, [-1, *x.shape[2:]]), states)
    return Sample(prev_action, env, agent, states, tf.tile(unrolls.weight, [unrolls.env.reward.shape[0]]))
