"""Random rollouts for algorithms that learn from them, as acting step by step leaves them behind."""

import numpy as np
import tensorflow as tf

from seed_rl.types import ArraySpec, EnvironmentSpec, EnvOutput, Sample

T, B = 7, 3
FRAME = ArraySpec((10, 9), "uint8")
DISCRETE = ArraySpec((), "int32", (0,), (3,))
ACTIONS = [
    DISCRETE,
    ArraySpec((2,), "int32", (0, 0), (2, 1)),
    ArraySpec((2,), "float32", (-2.0, -1.0), (2.0, 3.0)),
    ArraySpec((2,), "float32"),
]


def spec(action=DISCRETE):
    """Small frames."""
    return EnvironmentSpec(FRAME, action)


def random_env(seed=0):
    """Steps `[T + 1, B]` with episodes that terminate and episodes that are cut short."""
    rng, shape = np.random.default_rng(seed), (T + 1, B)
    done, truncated = rng.random(shape) < 0.25, np.zeros(shape, bool)
    truncated[:-1] = done[1:] & ~done[:-1] & (rng.random((T, B)) < 0.5)
    truncated[2, 0], done[2, 0], done[3, 0], done[5, 1], truncated[4, 1] = True, False, True, True, False
    reward = np.where(np.roll(truncated, 1, 0), 0, rng.normal(size=shape)).astype(np.float32)
    return EnvOutput(reward, done, truncated, rng.integers(0, 256, (*shape, *FRAME.shape), dtype=np.uint8))


def traced(algorithm):
    """The `act` of the algorithm's policy as one graph, for several rollouts."""
    return tf.function(algorithm.policy.act, autograph=False)


def rollout(algorithm, action=DISCRETE, seed=0, act=None):
    """A sample `[T + 1, B, ...]` that the algorithm's policy has played, from a state in mid-episode."""
    env, policy, act = random_env(seed), algorithm.policy, act or traced(algorithm)
    first = tf.nest.map_structure(lambda x: tf.constant(x[-1]), random_env(seed + 1))
    output, state = act(tf.constant(action.zeros(B)), first, policy.initial_state(B), tf.range(B))
    prev_action, rows, start = output.action, [], state
    for t in range(T + 1):
        step = tf.nest.map_structure(lambda x, t=t: tf.constant(x[t]), env)
        output, state = act(prev_action, step, state, tf.range(B))
        rows.append((prev_action, step, output))
        prev_action = output.action
    return Sample(*tf.nest.map_structure(lambda *xs: tf.stack(xs), *rows), start, tf.ones([B]))


def unacted(sample):
    """The rollout as training gets it: its last step has not been acted on, so nothing may be read there.

    NaN stands for the zeros of the store, since it would show in everything.
    """

    def ends(array):
        nothing = np.nan if array.dtype.is_floating else 0
        return tf.concat([array[:-1], tf.fill(array[-1:].shape, tf.cast(nothing, array.dtype))], 0)

    return sample._replace(agent=tf.nest.map_structure(ends, sample.agent))
