"""Small algorithms with known gradients: the loss is a line, and its slope is the reward of the batch."""

import keras
import tensorflow as tf

from seed_rl.algorithms.base import LOSS, Algorithm, Losses, Objective
from seed_rl.experience.base import UnrollConfig
from seed_rl.experience.experience_config import FifoConfig
from seed_rl.types import AgentOutput, EnvOutput, Sample

B = 4


class Slope(Algorithm):
    """Loss of an unroll: the sum of its weights times the unroll's reward, so its gradient is the reward."""

    def __init__(self):
        super().__init__(name="slope")
        self.unroll, self.experience = UnrollConfig(1), FifoConfig()
        self.weights = tf.Variable([1.0, 1.0])
        self.observed = tf.Variable(0.0, trainable=False)
        self.seen = tf.Variable(0, dtype=tf.int64, trainable=False)
        self.progress_seen = tf.Variable(0.0, trainable=False)

    @property
    def policy(self):
        raise NotImplementedError("Nothing acts in these tests.")

    @property
    def objectives(self):
        return {LOSS: Objective([self.weights])}

    def observe(self, sample):
        self.observed.assign_add(tf.reduce_sum(sample.env.reward))

    def losses(self, sample):
        loss = tf.reduce_mean(sample.env.reward, axis=0) * tf.reduce_sum(self.weights)
        return Losses({LOSS: loss}, tf.abs(loss), {"my_figure": tf.reduce_max(loss)})

    def after_update(self, iteration, progress):
        self.seen.assign(iteration)
        self.progress_seen.assign(progress)


class Pair(Slope):
    """Two objectives. The loss of `critic` also depends on the actor's variables, which it must not change.

    The actor's loss is the sum of its variables times the reward, and the critic's is the dot product of both
    times the reward. The critic has its own optimizer.
    """

    def __init__(self):
        super().__init__()
        self.actor, self.critic = tf.Variable([2.0, 1.0]), tf.Variable([1.0, -3.0])
        self._optimizer = keras.optimizers.SGD(0.5, momentum=0.75)

    @property
    def objectives(self):
        return {"actor": Objective([self.actor]), "critic": Objective([self.critic], self._optimizer)}

    def losses(self, sample):
        slope = tf.reduce_mean(sample.env.reward, axis=0)
        by_objective = {
            "critic": slope * tf.reduce_sum(self.actor * self.critic),
            "actor": slope * tf.reduce_sum(self.actor),
        }
        return Losses(by_objective, None, {"my_figure": tf.reduce_max(slope)})


def sample(slope, weight=None):
    """A batch of unrolls with this reward at each step."""
    rewards = tf.fill([2, B], float(slope))
    false = tf.zeros([2, B], tf.bool)
    env = EnvOutput(rewards, false, false, rewards)
    weight = tf.ones([B]) if weight is None else tf.constant(weight, tf.float32)
    return Sample(rewards, env, AgentOutput(rewards, {}), (), weight)
