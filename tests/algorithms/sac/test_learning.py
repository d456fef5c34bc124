"""SAC learns small games from a plain list of transitions: no server, no replay of the project."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from seed_rl.algorithms.sac.algorithm import SAC
from seed_rl.algorithms.sac.sac_config import SACConfig
from seed_rl.environments.suites.catch import Catch
from seed_rl.training.trainer import Trainer
from seed_rl.training.training_config import TrainerConfig
from seed_rl.types import ArraySpec, EnvironmentSpec, EnvOutput, Sample
from tests.algorithms.games import CATCH, B, Games, greedy_return

LINE = EnvironmentSpec(ArraySpec((2,), "float32"), ArraySpec((1,), "float32", (-2.0,), (6.0,)))
BATCH = 64


class Line:
    """B points that each should go to a place of its own and stay; episodes are cut short after 8 steps.

    The action 2 stands still. `returns` are the sums of the rewards of finished episodes.
    """

    LENGTH = 8

    def __init__(self, seed=0):
        self._rng, self.returns = np.random.default_rng(seed), []
        self._sums, self._steps = np.zeros(B), np.full(B, self.LENGTH)
        self._points = np.zeros((B, 2), np.float32)

    def reset(self):
        return self.step(tf.zeros([B, 1]))

    def step(self, actions):
        is_over = self._steps == self.LENGTH
        self._points[:, 0] += 0.1 * (actions.numpy()[:, 0] - 2.0)
        reward = np.where(is_over, 0.0, -np.abs(self._points[:, 0] - self._points[:, 1])).astype(np.float32)
        self._points[is_over] = self._rng.uniform(-1, 1, (is_over.sum(), 2))
        self._steps = np.where(is_over, 0, self._steps + 1)
        self._sums = np.where(is_over, 0.0, self._sums + reward)
        truncated = self._steps == self.LENGTH
        self.returns += self._sums[truncated].tolist()
        return EnvOutput(*map(tf.constant, (reward, is_over, truncated, self._points.copy())))


def learn(algorithm, games, num_steps, updates_per_step, first_update=20):
    """Plays so many steps of all games, and updates a few times after each; starts with random actions."""
    trainer = Trainer(algorithm, TrainerConfig(batch_size=BATCH, clip_norm=0))
    rng, rows, act = np.random.default_rng(0), [], tf.function(algorithm.policy.act, autograph=False)
    action_spec = algorithm._actor.trunk._env_spec.action
    prev_action, env = tf.constant(action_spec.zeros(B)), games.reset()
    for _ in range(num_steps):
        output, _ = act(prev_action, env, (), tf.range(B))
        rows.append(tf.nest.map_structure(np.asarray, (prev_action, env, output._replace(info={}))))
        prev_action, env = output.action, games.step(output.action)
        for _ in range(updates_per_step if len(rows) > first_update else 0):
            drawn = [(rows[t], rows[t + 1], b) for t, b in draw(rng, len(rows) - 1)]
            steps = [
                tf.nest.map_structure(lambda x, y, b=b: np.stack((x[b], y[b])), r, s) for r, s, b in drawn
            ]
            arrays = tf.nest.map_structure(lambda *xs: tf.constant(np.stack(xs, 1)), *steps)
            trainer.update(Sample(*arrays, (), tf.ones([BATCH])), 0.0)


def draw(rng, num_rows):
    return zip(rng.integers(num_rows, size=BATCH), rng.integers(B, size=BATCH), strict=True)


def make(spec, **options):
    keras.utils.set_random_seed(0)
    rates = {f"{name}_learning_rate": 3e-3 for name in ("actor", "critic", "temperature")}
    return SAC(SACConfig.of(**{"mlp_sizes": "32,32", **rates} | options), spec, B)


def line_return(algorithm, seed):
    """Mean return of 10 episodes of each point without exploration."""
    games, act = Line(seed), tf.function(algorithm.policy.act_greedy, autograph=False)
    env, prev_action = games.reset(), tf.zeros([B, 1])
    for _ in itertools.takewhile(lambda _: len(games.returns) < 10 * B, itertools.count()):
        prev_action = act(prev_action, env, (), tf.range(B))[0].action
        env = games.step(prev_action)
    return np.mean(games.returns)


@pytest.mark.slow
def test_learns_to_go_to_a_place():
    """Uniformly random actions get -6.1, standing still gets -5.5, and going there at once -0.5."""
    algorithm = make(LINE, discounting=0.9, target_update_rate=0.05)
    before = line_return(algorithm, 1)
    learn(algorithm, Line(), 300, 1)
    after = line_return(algorithm, 1)
    assert before < -4 and after > -1.6, (before, after)


@pytest.mark.slow
def test_learns_catch():
    algorithm = make(CATCH, discounting=0.9, target_update_rate=0.05, target_entropy_fraction=0.3)
    learn(algorithm, Games(lambda seed: Catch(10, 5, seed)), 400, 2)
    # A random policy gets about -0.6.
    found = greedy_return(algorithm, Games(lambda seed: Catch(10, 5, seed), first_seed=B), 200)
    assert found > 0.8
