"""How much DQN explores: one epsilon for all that falls, one for each environment, or noise in its layers."""

import numpy as np
import tensorflow as tf

from seed_rl.algorithms.dqn.config import DQNConfig
from seed_rl.ops.exploration import annealed_epsilon, training_epsilons


class Exploration(tf.Module):
    """The epsilon of each environment.

    Attributes:
      noisy: whether training environments explore by noise in the network.
    """

    def __init__(self, config: DQNConfig, num_training_envs: int):
        """Starts at the beginning of a run; environments from `num_training_envs` on only evaluate."""
        super().__init__(name="exploration")
        self.noisy = config.exploration == "noisy"
        self._config, self._num_training_envs = config, num_training_envs
        self._epsilons = np.zeros(num_training_envs, np.float32)
        self._annealed: tf.Variable | None = None
        if config.exploration == "ladder":
            self._epsilons = training_epsilons(num_training_envs)
        elif config.exploration == "annealed":
            self._annealed = tf.Variable(config.initial_epsilon, trainable=False, name="epsilon")
            self.update(tf.constant(0.0))

    def trains(self, env_ids: tf.Tensor) -> tf.Tensor:
        """Which environments train: bool `[B]`, by their ids int32 `[B]`."""
        return env_ids < self._num_training_envs

    def epsilons(self, env_ids: tf.Tensor) -> tf.Tensor:
        """The probability of a random action in each environment: float32 `[B]`, by their ids int32 `[B]`."""
        training = tf.gather(self._of_training(), tf.minimum(env_ids, self._num_training_envs - 1))
        return tf.where(self.trains(env_ids), training, self._config.eval_epsilon)

    def mean(self) -> tf.Tensor:
        """The mean over training environments, for the logs."""
        return tf.reduce_mean(self._of_training())

    def update(self, progress: tf.Tensor) -> None:
        """Sets epsilon to its value at this fraction of the run, float32 scalar."""
        if self._annealed is not None:
            config = self._config
            self._annealed.assign(
                annealed_epsilon(
                    progress, config.initial_epsilon, config.final_epsilon, config.epsilon_fraction
                )
            )

    def _of_training(self) -> tf.Tensor:
        if self._annealed is None:
            return tf.constant(self._epsilons)
        return tf.fill([self._num_training_envs], tf.convert_to_tensor(self._annealed))
