"""The agent learns Catch in one process: no server, no queue, no trainer of the project."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from seed_rl.agents.vtrace import VTraceAgent
from seed_rl.agents.vtrace_config import VTraceConfig
from seed_rl.environments.catch import Catch
from seed_rl.types import ArraySpec, EnvironmentSpec, EnvOutput, Sample

B = 16
SPEC = EnvironmentSpec(ArraySpec((10, 5), "float32"), ArraySpec((), "int32", (0,), (2,)))


class Games:
    """B games of Catch; counts the returns of finished episodes."""

    def __init__(self, seed):
        self._games = [Catch(10, 5, seed + i) for i in range(B)]
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


def learn(agent, num_updates, learning_rate):
    """Mean return of the last 200 episodes."""
    optimizer = keras.optimizers.Adam(learning_rate)
    games, env_ids = Games(seed=0), tf.range(B)
    act = tf.function(agent.act)

    @tf.function
    def update(sample):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(agent.loss(sample).loss)
        gradients = tape.gradient(loss, agent.learned_variables)
        optimizer.apply_gradients(zip(gradients, agent.learned_variables, strict=True))

    optimizer.build(agent.learned_variables)
    step = (tf.zeros([B], tf.int32), games.reset())
    state = before = agent.initial_state(B)
    rows = []
    for _ in range(num_updates):
        while len(rows) < agent.unroll.stored_steps:
            before = state
            output, state = act(*step, state, env_ids)
            if not rows:
                first_state = before
            rows.append((*step, output))
            step = (output.action, games.step(output.action))
        arrays = tf.nest.map_structure(lambda *xs: tf.stack(xs), *rows)
        update(Sample(*arrays, first_state, tf.ones([B])))
        # Unrolls overlap by one step.
        rows, first_state = rows[-1:], before
    return np.mean(games.returns[-200:])


@pytest.mark.parametrize("lstm_size", [0, 32])
def test_learns_catch(lstm_size):
    keras.utils.set_random_seed(0)
    config = VTraceConfig(unroll_length=20, lstm_size=lstm_size, mlp_sizes="64", entropy_cost=0.01)
    mean_return = learn(VTraceAgent(config, SPEC), num_updates=200, learning_rate=1e-2)
    # A random policy gets about -0.6.
    assert mean_return > 0.8
