"""R2D2 learns small games from a plain list of unrolls: no server, no replay of the project."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from seed_rl.algorithms.r2d2.algorithm import R2D2
from seed_rl.algorithms.r2d2.r2d2_config import R2D2Config
from seed_rl.environments.suites.catch import Catch
from seed_rl.environments.suites.recall import Recall
from seed_rl.types import Sample
from tests.algorithms.games import CATCH, RECALL, B, Games, greedy_return, unrolls
from tests.algorithms.objectives import loss_of, variables_of

UPDATES_PER_BATCH = 4


def make_r2d2(spec, **options):
    options = {
        "burn_in": 4,
        "n_steps": 3,
        "discounting": 0.97,
        "head_size": 32,
        "update_target_every_n_step": 50,
    } | options
    return R2D2(R2D2Config.of(**options), spec, B)


def learn(algorithm, make, num_batches, learning_rate):
    """Plays so many batches of unrolls, updates a few times after each, and returns the greedy return."""
    optimizer = keras.optimizers.Adam(learning_rate)
    optimizer.build(variables_of(algorithm))
    rng, replay = np.random.default_rng(0), []

    @tf.function(autograph=False)
    def update(sample, iteration):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(loss_of(algorithm, sample))
        gradients = tape.gradient(loss, variables_of(algorithm))
        optimizer.apply_gradients(zip(gradients, variables_of(algorithm), strict=True))
        algorithm.after_update(iteration, tf.constant(0.0))

    iterations = itertools.count(1)
    for batch in itertools.islice(unrolls(algorithm, Games(make)), num_batches):
        replay += cut(batch)
        for _ in range(UPDATES_PER_BATCH):
            chosen = [replay[i] for i in rng.integers(len(replay), size=B)]
            update(join(chosen), tf.constant(next(iterations), tf.int64))
    return greedy_return(algorithm, Games(make, first_seed=B), 200)


def cut(batch):
    """[S, B, ...] into B unrolls (steps [S, ...], state [...]), without what replay would not keep."""
    agent = batch.agent._replace(info={})
    steps, state = tf.nest.map_structure(
        lambda x: x.numpy(), ((batch.prev_action, batch.env, agent), batch.initial_state)
    )

    def column(b):
        return (
            tf.nest.map_structure(lambda x: x[:, b], steps),
            tf.nest.map_structure(lambda x: x[b], state),
        )

    return [column(b) for b in range(B)]


def join(unrolls):
    """The inverse of `cut`."""
    steps = tf.nest.map_structure(lambda *xs: tf.constant(np.stack(xs, 1)), *(u for u, _ in unrolls))
    state = tf.nest.map_structure(lambda *xs: tf.constant(np.stack(xs)), *(s for _, s in unrolls))
    return Sample(*steps, state, tf.ones([len(unrolls)]))


@pytest.mark.slow
@pytest.mark.parametrize("lstm_size", [0, 32])
def test_learns_catch(lstm_size):
    keras.utils.set_random_seed(0)
    algorithm = make_r2d2(CATCH, unroll_length=10, lstm_size=lstm_size, mlp_sizes="64")
    # A random policy gets about -0.6.
    assert learn(algorithm, lambda seed: Catch(10, 5, seed), 150, 3e-3) > 0.8


@pytest.mark.slow
@pytest.mark.parametrize("lstm_size,solved", [(32, True), (0, False)])
def test_recalls_what_it_saw_only_with_a_memory(lstm_size, solved):
    keras.utils.set_random_seed(0)
    algorithm = make_r2d2(
        RECALL, unroll_length=10, lstm_size=lstm_size, mlp_sizes="32", use_last_action_and_reward=False
    )
    mean_return = learn(algorithm, lambda seed: Recall(4, 2, seed), 50, 3e-3)
    # Chance is a half; 200 episodes of chance reach 0.65 about once in 50,000 times.
    assert mean_return >= 0.95 if solved else mean_return < 0.65
