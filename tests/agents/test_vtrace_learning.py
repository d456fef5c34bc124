"""The agent learns small games in one process: no server, no queue, no trainer of the project."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from seed_rl.agents.vtrace import VTraceAgent
from seed_rl.agents.vtrace_config import VTraceConfig
from seed_rl.environments.catch import Catch
from seed_rl.environments.recall import Recall
from seed_rl.types import ArraySpec, EnvironmentSpec, EnvOutput, Sample

B = 16
CATCH = EnvironmentSpec(ArraySpec((10, 5), "float32"), ArraySpec((), "int32", (0,), (2,)))
RECALL = EnvironmentSpec(ArraySpec((3,), "float32"), ArraySpec((), "int32", (0,), (1,)))


class Games:
    """B games with rewards only at their ends; counts the returns of finished episodes."""

    def __init__(self, make):
        self._games = [make(seed) for seed in range(B)]
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


def learn(agent, make, num_updates, learning_rate):
    """Mean return of the last 200 episodes."""
    optimizer = keras.optimizers.Adam(learning_rate)
    games, env_ids = Games(make), tf.range(B)
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
    mean_return = learn(VTraceAgent(config, CATCH), lambda seed: Catch(10, 5, seed), 200, 1e-2)
    # A random policy gets about -0.6.
    assert mean_return > 0.8


@pytest.mark.parametrize("lstm_size,solved", [(32, True), (0, False)])
def test_recalls_what_it_saw_only_with_a_memory(lstm_size, solved):
    keras.utils.set_random_seed(0)
    config = VTraceConfig(
        unroll_length=20,
        lstm_size=lstm_size,
        mlp_sizes="32",
        entropy_cost=0.01,
        use_last_action_and_reward=False,
    )
    mean_return = learn(VTraceAgent(config, RECALL), lambda seed: Recall(4, 2, seed), 200, 1e-2)
    # Chance is a half; 200 episodes of chance reach 0.65 about once in 50,000 times.
    assert mean_return >= 0.95 if solved else mean_return < 0.65
