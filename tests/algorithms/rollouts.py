"""Random rollouts for algorithms that learn from them, as acting step by step leaves them behind."""

import keras
import numpy as np
import tensorflow as tf

from seed_rl.algorithms.base import LOSS
from seed_rl.training.trainer import Trainer
from seed_rl.training.training_config import TrainerConfig
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


def maker(kind, config_class, **own):
    """The function that makes the algorithm for small frames; `own` are options unless others are given."""

    def make(action=DISCRETE, **options):
        keras.utils.set_random_seed(0)
        options = {"unroll_length": T, "frame_stack": 4, "mlp_sizes": "16"} | own | options
        return kind(config_class.of(**options), EnvironmentSpec(FRAME, action), B)

    return make


def loss_of(algorithm, sample):
    """The loss of each unroll, `[B]`, of an algorithm with a single objective."""
    return algorithm.losses(sample).by_objective[LOSS]


def variables_of(algorithm):
    """The variables that the loss is differentiated by."""
    return algorithm.objectives[LOSS].variables


def moved(algorithm):
    """The algorithm with another policy than the one that has acted."""
    for variable in variables_of(algorithm):
        variable.assign_add(0.1 * tf.random.stateless_normal(variable.shape, [1, 2]))
    return algorithm


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


def play(act, env, prev_action, state):
    """The sample that acting step by step leaves behind; the states before each step and after the last."""
    rows, states, num_envs = [], [state], len(prev_action)
    for t in range(len(env.reward)):
        step = tf.nest.map_structure(lambda x, t=t: tf.constant(x[t]), env)
        output, state = act(prev_action, step, states[-1], tf.range(num_envs))
        rows.append((prev_action, step, output))
        states.append(state)
        prev_action = output.action
    steps = tf.nest.map_structure(lambda *xs: tf.stack(xs), *rows)
    return Sample(*steps, states[0], tf.ones([num_envs])), states


def rollout(algorithm, action=DISCRETE, seed=0, act=None):
    """A sample `[T + 1, B, ...]` that the algorithm's policy has played, from a state in mid-episode."""
    act = act or traced(algorithm)
    first = tf.nest.map_structure(lambda x: tf.constant(x[-1]), random_env(seed + 1))
    before = tf.constant(action.zeros(B)), first, algorithm.policy.initial_state(B), tf.range(B)
    output, state = act(*before)
    return play(act, random_env(seed), output.action, state)[0]


def unacted(sample):
    """The rollout as training gets it: its last step has not been acted on, so nothing may be read there.

    NaN stands for the zeros of the store, since it would show in everything.
    """

    def ends(array):
        nothing = np.nan if array.dtype.is_floating else 0
        return tf.concat([array[:-1], tf.fill(array[-1:].shape, tf.cast(nothing, array.dtype))], 0)

    return sample._replace(agent=tf.nest.map_structure(ends, sample.agent))


def twenty_updates(algorithm):
    """Yields each rollout and what the algorithm prepares of it, before it learns from it."""
    trainer = Trainer(algorithm, TrainerConfig(batch_size=B, learning_rate=0.01))
    act, prepare = traced(algorithm), tf.function(algorithm.prepare, autograph=False)
    for number in range(20):
        sample = rollout(algorithm, seed=number, act=act)
        yield sample, prepare(unacted(sample))
        trainer.update(unacted(sample), 0.0)
