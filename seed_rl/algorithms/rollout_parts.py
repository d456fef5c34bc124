"""How rollouts become what minibatches are drawn from."""

import tensorflow as tf

from seed_rl.networks.trunk import Trunk
from seed_rl.types import Sample


def parts_of(trunk: Trunk, unrolls: Sample) -> Sample:
    """What minibatches are parts of: whole unrolls if the network is recurrent, else transitions.

    Args:
      trunk: of the network.
      unrolls: `[T, B, ...]`, without the last steps of a rollout, from which no transition starts.

    Returns:
      The unrolls, or transitions `[1, T * B, ...]`, each with the state before it.
    """
    if trunk.is_recurrent:
        return unrolls
    states = trunk.states(unrolls.env, unrolls.initial_state)
    steps = (unrolls.prev_action, unrolls.env, unrolls.agent)
    prev_action, env, agent = tf.nest.map_structure(lambda x: tf.reshape(x, [1, -1, *x.shape[2:]]), steps)
    states = tf.nest.map_structure(lambda x: tf.reshape(x, [-1, *x.shape[2:]]), states)
    return Sample(prev_action, env, agent, states, tf.tile(unrolls.weight, [unrolls.env.reward.shape[0]]))
