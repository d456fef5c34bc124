"""The trainer: one update of any agent. Gradients, clipping, schedule, optimizer; no algorithm."""

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from seed_rl.agents.base import Agent
from seed_rl.training.config import TrainerConfig
from seed_rl.types import Sample


class UpdateOutput(NamedTuple):
    """What an update says. priority: float32 `[B]` or None. metrics: scalar tensors by plain name."""

    priority: tf.Tensor | None
    metrics: dict[str, tf.Tensor]


class Trainer:
    """Updates an agent's variables, one batch at a time.

    Attributes:
      optimizer: for checkpoints.
      iteration: int64 variable, the number of updates; for checkpoints.
      updates: the same as a plain number, cheap to read from any thread.
    """

    def __init__(self, agent: Agent, config: TrainerConfig):
        """Prepares an optimizer for the agent's variables.

        Args:
          agent: what is trained.
          config: how.
        """
        self.optimizer = _make_optimizer(config)
        self.optimizer.build(agent.learned_variables)
        self.iteration = tf.Variable(0, dtype=tf.int64, trainable=False, name="iteration")
        self.updates = 0
        self._agent = agent
        self._config = config

    def update(self, sample: Sample, progress: float) -> UpdateOutput:
        """Trains on a batch.

        Args:
          sample: tensors `[S, B, ...]`.
          progress: share of the run that is over, 0 to 1, for the schedule.
        """
        output = self._update(sample, tf.constant(self.learning_rate(progress), tf.float32))
        self.updates += 1
        return output

    def learning_rate(self, progress: float) -> float:
        """The learning rate at this share of the run."""
        left = 1.0 - min(max(progress, 0.0), 1.0)
        return self._config.learning_rate * (left if self._config.learning_rate_schedule == "linear" else 1.0)

    def restored(self) -> None:
        """To be called after a checkpoint was read into the variables."""
        self.updates = int(self.iteration.numpy())

    @tf.function(autograph=False)
    def _update(self, sample: Sample, learning_rate: tf.Tensor) -> UpdateOutput:
        variables = self._agent.learned_variables
        self._agent.observe(sample)
        with tf.GradientTape() as tape:
            output = self._agent.loss(sample)
            loss = tf.reduce_mean(output.loss * sample.weight)
        gradients = tape.gradient(loss, variables)
        norm = tf.linalg.global_norm(gradients)
        if self._config.clip_norm:
            gradients, _ = tf.clip_by_global_norm(gradients, self._config.clip_norm, use_norm=norm)
        self.optimizer.learning_rate.assign(learning_rate)
        self.optimizer.apply(gradients, variables)
        self.iteration.assign_add(1)
        self._agent.after_update(self.iteration)
        metrics: dict[str, Any] = {**output.metrics, "loss": loss, "gradient_norm": norm}
        return UpdateOutput(output.priority, {**metrics, "learning_rate": learning_rate})


def _make_optimizer(config: TrainerConfig) -> keras.optimizers.Optimizer:
    if config.optimizer == "adam":
        return keras.optimizers.Adam(
            config.learning_rate, beta_1=config.adam_beta_1, epsilon=config.adam_epsilon
        )
    return keras.optimizers.RMSprop(
        config.learning_rate, rho=config.rmsprop_decay, epsilon=config.adam_epsilon
    )
