import keras
import numpy as np
import pytest
import tensorflow as tf

from seed_rl.agents.base import Agent, LossOutput, UnrollConfig
from seed_rl.experience.config import FifoConfig
from seed_rl.training.config import TrainerConfig
from seed_rl.training.trainer import Trainer
from seed_rl.types import AgentOutput, EnvOutput, Sample

B = 4


class Slope(Agent):
    """Loss of an unroll: the sum of its weights times the unroll's reward, so its gradient is the reward."""

    def __init__(self):
        super().__init__(name="slope")
        self.unroll, self.experience = UnrollConfig(1), FifoConfig()
        self.weights = tf.Variable([1.0, 1.0])
        self.observed = tf.Variable(0.0, trainable=False)
        self.seen = tf.Variable(0, dtype=tf.int64, trainable=False)

    @property
    def learned_variables(self):
        return [self.weights]

    def initial_state(self, batch_size):
        return ()

    def act(self, prev_action, env, state, env_ids):
        raise NotImplementedError

    def observe(self, sample):
        self.observed.assign_add(tf.reduce_sum(sample.env.reward))

    def loss(self, sample):
        loss = tf.reduce_mean(sample.env.reward, axis=0) * tf.reduce_sum(self.weights)
        return LossOutput(loss, tf.abs(loss), {"my_figure": tf.reduce_max(loss)})

    def after_update(self, iteration):
        self.seen.assign(iteration)


def sample(slope, weight=None):
    rewards = tf.fill([2, B], float(slope))
    false = tf.zeros([2, B], tf.bool)
    env = EnvOutput(rewards, false, false, rewards)
    weight = tf.ones([B]) if weight is None else tf.constant(weight, tf.float32)
    return Sample(rewards, env, AgentOutput(rewards, {}), (), weight)


def trainer(agent=None, **settings):
    return Trainer(agent or Slope(), TrainerConfig(learning_rate=0.1, **settings))


@pytest.mark.parametrize(("progress", "rate"), [(0, 0.1), (0.25, 0.075), (1, 0), (1.5, 0), (-1, 0.1)])
def test_linear_schedule(progress, rate):
    assert trainer().learning_rate(progress) == pytest.approx(rate)


@pytest.mark.parametrize("progress", [0, 0.5, 1])
def test_constant_schedule(progress):
    assert trainer(learning_rate_schedule="constant").learning_rate(progress) == 0.1


def test_schedule_reaches_the_optimizer():
    agent = Slope()
    found = trainer(agent)
    output = found.update(sample(2.0), progress=0.5)
    assert output.metrics["learning_rate"].numpy() == pytest.approx(0.05)
    np.testing.assert_allclose(agent.weights.numpy(), 1.0 - 0.05, rtol=1e-5)  # Adam's first step.
    before = agent.weights.numpy()
    found.update(sample(2.0), progress=1.0)
    np.testing.assert_array_equal(agent.weights.numpy(), before)


def test_updates_are_counted_and_told():
    agent = Slope()
    found = trainer(agent)
    assert (found.updates, found.iteration.numpy()) == (0, 0)
    for _ in range(3):
        output = found.update(sample(1.0), 0.0)
    assert (found.updates, found.iteration.numpy(), agent.seen.numpy()) == (3, 3, 3)
    assert agent.observed.numpy() == 3 * 2 * B
    assert output.priority.shape == (B,)
    assert {"my_figure", "loss", "gradient_norm", "learning_rate"} <= set(output.metrics)


@pytest.mark.parametrize(("clip_norm", "scale"), [(0.5, 0.1), (5.0, 1.0), (100.0, 1.0), (0.0, 1.0)])
def test_gradients_are_clipped_by_their_global_norm(clip_norm, scale):
    """Gradient (3, 4)-like: both are 5 / sqrt(2); plain gradient descent shows what arrives."""
    agent = Slope()
    found = trainer(agent, clip_norm=clip_norm)
    found.optimizer = keras.optimizers.SGD(1.0)
    found.optimizer.build(agent.learned_variables)
    slope = 5.0 / np.sqrt(2.0)
    output = found.update(sample(slope), 0.0)
    assert output.metrics["gradient_norm"].numpy() == pytest.approx(5.0, rel=1e-5)  # Before clipping.
    np.testing.assert_allclose(agent.weights.numpy(), 1.0 - 0.1 * slope * scale, rtol=1e-4)


def test_loss_is_the_weighted_mean():
    output = trainer().update(sample(1.0, weight=[0, 0, 2, 4]), 0.0)
    assert output.metrics["loss"].numpy() == pytest.approx(2.0 * (2 + 4) / 4)


@pytest.mark.parametrize("optimizer", ["adam", "rmsprop"])
def test_descends(optimizer):
    agent = Slope()
    found = trainer(agent, optimizer=optimizer)
    for _ in range(5):
        found.update(sample(1.0), 0.0)
    assert (agent.weights.numpy() < 0.9).all()


def test_optimizers_have_their_settings():
    adam = trainer(adam_beta_1=0.5, adam_epsilon=0.125).optimizer
    assert (adam.beta_1, adam.epsilon) == (0.5, 0.125)
    rmsprop = trainer(optimizer="rmsprop", rmsprop_decay=0.75, adam_epsilon=0.125).optimizer
    assert (rmsprop.rho, rmsprop.epsilon) == (0.75, 0.125)
