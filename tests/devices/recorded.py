"""Training batches without environments: random steps, and what an algorithm's policy said to them."""

import numpy as np
import optree
import tensorflow as tf

from seed_rl.types import EnvOutput, Sample


def random_step(rng, spec, *leading):
    """A step of environments with one array as their observation."""
    observation = rng.normal(3, 2, (*leading, *spec.observation.shape))
    if spec.observation.dtype == "uint8":
        observation = rng.integers(0, 256, observation.shape)
    return EnvOutput(
        rng.normal(size=leading).astype(np.float32),
        rng.random(leading) < 0.2,
        rng.random(leading) < 0.1,
        observation.astype(spec.observation.dtype),
    )


def samples(algorithm, spec, batch_size, number):
    """Batches of NumPy arrays; actions are discrete."""
    rng, policy, found = np.random.default_rng(0), algorithm.policy, []
    for _ in range(number):
        state = policy.initial_state(batch_size)
        start, steps, prev_action = state, [], np.zeros(batch_size, np.int32)
        for _ in range(algorithm.unroll.stored_steps):
            env = random_step(rng, spec, batch_size)
            tensors = tf.nest.map_structure(tf.constant, (prev_action, env))
            output, state = policy.act(*tensors, state, tf.range(batch_size))
            steps.append((prev_action, env, optree.tree_map(np.asarray, output)))
            prev_action = output.action.numpy()
        stacked = optree.tree_map(lambda *x: np.stack(x), *steps)
        start = optree.tree_map(np.asarray, start)
        found.append(Sample(*stacked, start, rng.random(batch_size).astype(np.float32)))
    return found
