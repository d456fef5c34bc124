"""Priorities of unrolls as they enter replay, from the policy's outputs when it acted."""

import numpy as np
import optree
import tensorflow as tf

from seed_rl.algorithms.base import Algorithm
from seed_rl.types import Unroll


class InitialPriorities:
    """Calls `Algorithm.initial_priority` on unrolls on the host, without their observations."""

    def __init__(self, algorithm: Algorithm):
        """Prepares; the algorithm is traced when it is first called."""
        self._compute = tf.function(algorithm.initial_priority, autograph=False, reduce_retracing=True)

    def __call__(self, unrolls: list[Unroll]) -> np.ndarray:
        """Computes the priorities float32 `[K]` of unrolls."""
        steps = [(unroll.env._replace(observation=()), unroll.agent) for unroll in unrolls]
        env, agent = optree.tree_map(lambda *x: tf.constant(np.stack(x, axis=1)), *steps)
        return self._compute(env, agent).numpy()
