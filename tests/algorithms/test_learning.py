"""Algorithms that train on what was just played learn small games in one process: no server, no queue."""

import itertools

import keras
import numpy as np
import pytest

from seed_rl.algorithms import registry
from seed_rl.environments.suites.catch import Catch
from seed_rl.environments.suites.recall import Recall
from seed_rl.training.trainer import Trainer
from seed_rl.training.training_config import TrainerConfig
from tests.algorithms.games import CATCH, RECALL, B, ForbiddingGames, Games, unrolls
from tests.selection import mostly_long

PQN = {"epochs": 2, "lambda_": 0.9, "epsilon_fraction": 0.5, "final_epsilon": 0.01}
# Agent, settings, batches of 16 unrolls, learning rate, and unrolls in a minibatch.
LEARNERS = {
    "vtrace": ("vtrace", {"entropy_cost": 0.01}, 200, 1e-2, B),
    "vtrace, LSTM": ("vtrace", {"entropy_cost": 0.01, "lstm_size": 32}, 200, 1e-2, B),
    "a2c": ("a2c", {"unroll_length": 10}, 300, 5e-3, B),
    "appo": ("appo", {"vtrace": True}, 200, 1e-2, B),
    "appo, GAE": ("appo", {"vtrace": False}, 200, 1e-2, B),
    "ppo": ("ppo", {}, 60, 5e-3, 4),
    "ppo, LSTM": ("ppo", {"lstm_size": 32}, 60, 5e-3, 4),
    "pqn": ("pqn", PQN, 120, 3e-3, 4),
    "pqn, LSTM": ("pqn", {**PQN, "lstm_size": 32}, 120, 3e-3, 4),
}
WITH_MEMORY = {
    "vtrace": ("vtrace", {"entropy_cost": 0.01, "use_last_action_and_reward": False}, 200, 1e-2, B),
    "ppo": ("ppo", {"use_last_action_and_reward": False}, 80, 5e-3, 4),
    "pqn": ("pqn", PQN, 150, 3e-3, 4),
}


def learn(spec, games, agent, options, num_batches, learning_rate, batch_size):
    """Mean return of the last 200 episodes; every batch, or rollout, is one unroll of each of B games."""
    keras.utils.set_random_seed(0)
    settings = {"unroll_length": 20, "lstm_size": 0, **options}
    algorithm = registry.make(agent, registry.config_class(agent).of(**settings), spec, B)
    config = TrainerConfig(
        batch_size=batch_size, learning_rate=learning_rate, learning_rate_schedule="constant", clip_norm=1.0
    )
    trainer = Trainer(algorithm, config)
    for number, sample in enumerate(itertools.islice(unrolls(algorithm, games), num_batches)):
        trainer.update(sample, number / num_batches)
    return np.mean(games.returns[-200:])


@pytest.mark.parametrize(
    "name", [name if name == "vtrace" else pytest.param(name, marks=pytest.mark.slow) for name in LEARNERS]
)
def test_learns_catch(name):
    agent, options, *rest = LEARNERS[name]
    games = Games(lambda seed: Catch(10, 5, seed))
    # A random policy gets about -0.6.
    assert learn(CATCH, games, agent, {**options, "mlp_sizes": "64"}, *rest) > 0.7


@pytest.mark.slow
@pytest.mark.parametrize("name", mostly_long(list(LEARNERS), ["vtrace", "ppo", "pqn"]))
def test_learns_with_action_masks_and_never_takes_a_forbidden_action(name):
    agent, options, *rest = LEARNERS[name]
    games = ForbiddingGames()
    mean_return = learn(games.spec, games, agent, {**options, "mlp_sizes": "64"}, *rest)
    assert mean_return > 0.7 and games.forbidden == 0


@pytest.mark.slow
@pytest.mark.parametrize(("lstm_size", "solved"), [(32, True), (0, False)])
@pytest.mark.parametrize("name", WITH_MEMORY)
def test_recalls_what_it_saw_only_with_a_memory(name, lstm_size, solved):
    agent, options, *rest = WITH_MEMORY[name]
    options = {**options, "lstm_size": lstm_size, "mlp_sizes": "32"}
    mean_return = learn(RECALL, Games(lambda seed: Recall(4, 2, seed)), agent, options, *rest)
    # Chance is a half; 200 episodes of chance reach 0.65 about once in 50,000 times.
    assert mean_return >= 0.95 if solved else mean_return < 0.65
