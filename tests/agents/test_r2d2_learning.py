"""The agent learns small games from a plain list of unrolls: no server, no replay of the project."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from seed_rl.agents.r2d2 import R2D2Agent
from seed_rl.agents.r2d2_config import R2D2Config
from seed_rl.environments.catch import Catch
from seed_rl.environments.recall import Recall
from seed_rl.types import Sample
from tests.agents.games import CATCH, RECALL, B, Games, greedy_return, unrolls

UPDATES_PER_BATCH = 4


def make_agent(spec, **options):
    options = {
        "burn_in": 4,
        "n_steps": 3,
        "discounting": 0.97,
        "head_size": 32,
        "update_target_every_n_step": 50,
    } | options
    return R2D2Agent(R2D2Config(**options), spec, B)


def learn(agent, make, num_batches, learning_rate):
    """Plays so many batches of unrolls, updates a few times after each, and returns the greedy return."""
    optimizer = keras.optimizers.Adam(learning_rate)
    optimizer.build(agent.learned_variables)
    rng, replay = np.random.default_rng(0), []

    @tf.function
    def update(sample, iteration):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(agent.loss(sample).loss)
        gradients = tape.gradient(loss, agent.learned_variables)
        optimizer.apply_gradients(zip(gradients, agent.learned_variables, strict=True))
        agent.after_update(iteration)

    iterations = itertools.count(1)
    for batch in itertools.islice(unrolls(agent, Games(make)), num_batches):
        replay += cut(batch)
        for _ in range(UPDATES_PER_BATCH):
            chosen = [replay[i] for i in rng.integers(len(replay), size=B)]
            update(join(chosen), tf.constant(next(iterations), tf.int64))
    return greedy_return(agent, Games(make, first_seed=B), 200)


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


@pytest.mark.parametrize("lstm_size", [0, pytest.param(32, marks=pytest.mark.slow)])
def test_learns_catch(lstm_size):
    keras.utils.set_random_seed(0)
    agent = make_agent(CATCH, unroll_length=10, lstm_size=lstm_size, mlp_sizes="64")
    # A random policy gets about -0.6.
    assert learn(agent, lambda seed: Catch(10, 5, seed), 150, 3e-3) > 0.8


@pytest.mark.slow
@pytest.mark.parametrize("lstm_size,solved", [(32, True), (0, False)])
def test_recalls_what_it_saw_only_with_a_memory(lstm_size, solved):
    keras.utils.set_random_seed(0)
    agent = make_agent(
        RECALL, unroll_length=10, lstm_size=lstm_size, mlp_sizes="32", use_last_action_and_reward=False
    )
    mean_return = learn(agent, lambda seed: Recall(4, 2, seed), 50, 3e-3)
    # Chance is a half; 200 episodes of chance reach 0.65 about once in 50,000 times.
    assert mean_return >= 0.95 if solved else mean_return < 0.65
