"""Small games played by an algorithm in one process: no server, no queue, no replay."""

import numpy as np
import tensorflow as tf

from seed_rl.environments.singles import SingleEnvironments
from seed_rl.environments.suites.classic import SUITE, GymConfig
from seed_rl.types import ArraySpec, EnvironmentSpec, EnvOutput, Sample
from tests.environments import forbidding

B = 16
CATCH = EnvironmentSpec(ArraySpec((10, 5), "float32"), ArraySpec((), "int32", (0,), (2,)))
RECALL = EnvironmentSpec(ArraySpec((3,), "float32"), ArraySpec((), "int32", (0,), (1,)))


class Games:
    """B games with rewards only at their ends; counts the returns of finished episodes."""

    spec = CATCH  # Of the action; observations may be others.

    def __init__(self, make, first_seed=0):
        self._games = [make(first_seed + i) for i in range(B)]
        self.returns = []

    def reset(self):
        observations = [game.reset()[0] for game in self._games]
        return self._output(np.zeros(B), np.ones(B, bool), observations)

    def step(self, actions):
        rewards, dones, observations = [], [], []
        for game, action in zip(self._games, actions.numpy(), strict=True):
            observation, reward, done, _, _ = game.step(action)
            if done:
                self.returns.append(reward)
                observation, _ = game.reset()
            rewards.append(reward)
            dones.append(done)
            observations.append(observation)
        return self._output(rewards, dones, observations)

    def _output(self, reward, done, observation):
        arrays = np.array(reward, np.float32), np.array(done), np.zeros(B, bool), np.stack(observation)
        return EnvOutput(*map(tf.constant, arrays))


class ForbiddingGames:
    """B games of Catch with action masks; counts forbidden actions as well.

    Attributes:
      spec: of the environments.
      returns: of finished episodes.
      forbidden: how many forbidden actions were taken.
    """

    def __init__(self, first_seed=0):
        config = GymConfig(game=f"{forbidding.__name__}:Forbidding-v0")
        self._batch = SingleEnvironments(SUITE, config, range(first_seed, first_seed + B))
        self.spec, self.returns, self.forbidden = self._batch.spec, [], 0

    def reset(self):
        return tf.nest.map_structure(tf.constant, self._batch.reset())

    def step(self, actions):
        output, infos = self._batch.step(actions.numpy())
        self.returns += output.reward[output.done].tolist()
        self.forbidden += sum(info.get("metrics", {}).get("forbidden", 0) for info in infos)
        return tf.nest.map_structure(tf.constant, output)


def steps(algorithm, games, act):
    """Yields forever the state before a step, and the step as (prev_action, env, agent), each `[B, ...]`."""
    prev_action, env, state = (
        tf.constant(games.spec.action.zeros(B)),
        games.reset(),
        algorithm.policy.initial_state(B),
    )
    everyone = tf.range(B)
    act = tf.function(act, autograph=False).get_concrete_function(prev_action, env, state, everyone)
    while True:
        output, next_state = act(prev_action, env, state, everyone)
        yield state, (prev_action, env, output)
        prev_action, env, state = output.action, games.step(output.action), next_state


def unrolls(algorithm, games):
    """Yields forever B unrolls, cut as the algorithm requires and played with its current weights."""
    rows = []
    for row in steps(algorithm, games, algorithm.policy.act):
        rows.append(row)
        if len(rows) == algorithm.unroll.stored_steps:
            arrays = tf.nest.map_structure(lambda *xs: tf.stack(xs), *(step for _, step in rows))
            yield Sample(*arrays, rows[0][0] if algorithm.unroll.keeps_state else (), tf.ones([B]))
            rows = rows[algorithm.unroll.every :]


def greedy_return(algorithm, games, num_episodes):
    """Mean return of `num_episodes` (and those that end together with the last one) without exploration."""
    for _ in steps(algorithm, games, algorithm.policy.act_greedy):
        if len(games.returns) >= num_episodes:
            return np.mean(games.returns)
