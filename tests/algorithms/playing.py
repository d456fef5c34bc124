"""Algorithms with a trainer and an environment in one process: rollouts or queues without a server."""

import itertools

import numpy as np

from seed_rl.training.config import TrainerConfig
from seed_rl.training.trainer import Trainer
from tests.algorithms.games import B, Games, unrolls


def learn(algorithm, make, num_batches, learning_rate, batch_size=B):
    """Mean return of the last 200 episodes; every batch, or rollout, is one unroll of each of B games."""
    games = Games(make)
    config = TrainerConfig(
        batch_size=batch_size, learning_rate=learning_rate, learning_rate_schedule="constant", clip_norm=1.0
    )
    trainer = Trainer(algorithm, config)
    for number, sample in enumerate(itertools.islice(unrolls(algorithm, games), num_batches)):
        trainer.update(sample, number / num_batches)
    return np.mean(games.returns[-200:])
