"""V-trace learns small games in one process: no server, no queue, no trainer of the project."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from seed_rl.algorithms.vtrace.algorithm import VTrace
from seed_rl.algorithms.vtrace.config import VTraceConfig
from seed_rl.environments.suites.catch import Catch
from seed_rl.environments.suites.recall import Recall
from tests.algorithms.games import CATCH, RECALL, Games, unrolls
from tests.algorithms.objectives import loss_of, variables_of
from tests.selection import mostly_slow


def learn(algorithm, make, num_updates, learning_rate):
    """Mean return of the last 200 episodes."""
    optimizer = keras.optimizers.Adam(learning_rate)
    games = Games(make)

    @tf.function(autograph=False)
    def update(sample):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(loss_of(algorithm, sample))
        gradients = tape.gradient(loss, variables_of(algorithm))
        optimizer.apply_gradients(zip(gradients, variables_of(algorithm), strict=True))

    optimizer.build(variables_of(algorithm))
    for sample in itertools.islice(unrolls(algorithm, games), num_updates):
        update(sample)
    return np.mean(games.returns[-200:])


@pytest.mark.parametrize("lstm_size", mostly_slow([0, 32], [0]))
def test_learns_catch(lstm_size):
    keras.utils.set_random_seed(0)
    config = VTraceConfig.of(unroll_length=20, lstm_size=lstm_size, mlp_sizes="64", entropy_cost=0.01)
    mean_return = learn(VTrace(config, CATCH), lambda seed: Catch(10, 5, seed), 200, 1e-2)
    # A random policy gets about -0.6.
    assert mean_return > 0.8


@pytest.mark.slow
@pytest.mark.parametrize("lstm_size,solved", [(32, True), (0, False)])
def test_recalls_what_it_saw_only_with_a_memory(lstm_size, solved):
    keras.utils.set_random_seed(0)
    config = VTraceConfig.of(
        unroll_length=20,
        lstm_size=lstm_size,
        mlp_sizes="32",
        entropy_cost=0.01,
        use_last_action_and_reward=False,
    )
    mean_return = learn(VTrace(config, RECALL), lambda seed: Recall(4, 2, seed), 200, 1e-2)
    # Chance is a half; 200 episodes of chance reach 0.65 about once in 50,000 times.
    assert mean_return >= 0.95 if solved else mean_return < 0.65
