"""Parts of training on rollouts: the value of the last step, and the source of minibatches."""

from typing import Any

import tensorflow as tf

from seed_rl.networks.trunk import Trunk
from seed_rl.types import AgentOutput, Sample

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


def bootstrapped(
    values: tf.Tensor, last_value: tf.Tensor, truncated: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Values with that to bootstrap from, `[T + 1, B]`, and which transitions are experience `[T, B]`.

    The last step has not been acted on, so nothing has checked yet whether the network overflows there. If it
    does, the last transition is left out. Values are `[T, B]`, that of the last step `[B]`, and `truncated`
    (see types.py) is `[T + 1, B]`.
    """
    is_good = tf.abs(last_value) < _LARGEST_VALUE  # False for NaN.
    valid = tf.logical_not(truncated[:-1])
    valid = tf.concat([valid[:-1], (valid[-1] & is_good)[tf.newaxis]], 0)
    return tf.concat([values, tf.where(is_good, last_value, 0.0)[tf.newaxis]], 0), valid


def parts_of(trunk: Trunk, rollout: Sample, info: dict[str, tf.Tensor]) -> Sample:
    """Units that minibatches are drawn from: whole unrolls if the network is recurrent, else transitions.

    From a rollout `[T + 1, B, ...]`, whose last step is left out as no transition starts there, and `info`
    `[T, B, ...]` on its transitions in place of that of acting, to `[T, B, ...]` or to transitions
    `[1, T * B, ...]`, each with the state before it.
    """
    actions = rollout.prev_action, rollout.env, rollout.agent.action
    prev_action, env, action = tf.nest.map_structure(lambda x: x[:-1], actions)
    unrolls = rollout._replace(prev_action=prev_action, env=env, agent=AgentOutput(action, info))
    if trunk.is_recurrent:
        return unrolls
    states = trunk.states(env, rollout.initial_state)
    prev_action, env, agent = tf.nest.map_structure(
        lambda x: tf.reshape(x, [1, -1, *x.shape[2:]]), unrolls[:3]
    )
    states = tf.nest.map_structure(lambda x: tf.reshape(x, [-1, *x.shape[2:]]), states)
    return Sample(prev_action, env, agent, states, tf.tile(rollout.weight, [action.shape[0]]))
