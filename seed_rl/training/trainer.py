"""The trainer: one update of any algorithm. Gradients, clipping, schedule, optimizers."""

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from seed_rl.algorithms.base import Algorithm
from seed_rl.algorithms.check import check_losses
from seed_rl.devices.replicas import Replicas
from seed_rl.ops.replicas import mean_of_metrics, mean_over_replicas
from seed_rl.training.config import TrainerConfig
from seed_rl.types import Sample


class UpdateOutput(NamedTuple):
    """The result of an update. priority: float32 `[B]` or None. metrics: scalar tensors by plain name."""

    priority: tf.Tensor | None
    metrics: dict[str, tf.Tensor]


class Trainer:
    """Updates an algorithm's variables, one batch at a time.

    Attributes:
      optimizers: by objective, for checkpoints.
      iteration: int64 variable, the number of updates; for checkpoints.
      updates: the same as a plain number, cheap to read from any thread.
    """

    def __init__(self, algorithm: Algorithm, config: TrainerConfig, replicas: Replicas | None = None):
        """Prepares an optimizer for each objective of the algorithm.

        Args:
          algorithm: the algorithm to train.
          config: settings of the optimizer, schedule and clipping.
          replicas: the training devices, in whose scope the algorithm has been created.

        Raises:
          ValueError: the batch cannot be split over the devices.
        """
        self._replicas = replicas or Replicas()
        self._replicas.check_batch(config.batch_size)
        self.optimizers: dict[str, keras.optimizers.Optimizer] = {}
        self._objectives = dict(algorithm.objectives)
        for name, objective in self._objectives.items():
            with self._replicas.scope():
                self.optimizers[name] = objective.optimizer or _make_optimizer(config)
                self.optimizers[name].build(objective.variables)
            # Keras would add up over the devices what is a mean over them already.
            self.optimizers[name]._all_reduce_sum_gradients = list
        self.iteration = tf.Variable(0, dtype=tf.int64, trainable=False, name="iteration")
        self.updates = 0
        self._algorithm = algorithm
        self._config = config

    def update(self, sample: Sample, progress: float) -> UpdateOutput:
        """Trains on a batch.

        Args:
          sample: tensors `[S, B, ...]`, as `Replicas.distribute` makes them.
          progress: fraction of the run that is complete, 0 to 1, for the schedule.
        """
        learning_rate = tf.constant(self.learning_rate(progress), tf.float32)
        output = self._update(sample, learning_rate, tf.constant(_limited(progress), tf.float32))
        self.updates += 1
        return output

    def learning_rate(self, progress: float) -> float:
        """The learning rate at this fraction of the run."""
        left = 1.0 - _limited(progress)
        return self._config.learning_rate * (left if self._config.learning_rate_schedule == "linear" else 1.0)

    def restored(self) -> None:
        """Must be called after a checkpoint has been restored into the variables."""
        self.updates = int(self.iteration.numpy())

    @tf.function(autograph=False)
    def _update(self, sample: Sample, learning_rate: tf.Tensor, progress: tf.Tensor) -> UpdateOutput:
        priority, metrics = self._replicas.run(self._train, sample, learning_rate)
        self.iteration.assign_add(1)
        self._algorithm.after_update(self.iteration, progress)
        metrics = {**self._replicas.first(metrics), "learning_rate": learning_rate}
        return UpdateOutput(self._replicas.join(priority), metrics)

    def _train(
        self, sample: Sample, learning_rate: tf.Tensor
    ) -> tuple[tf.Tensor | None, dict[str, tf.Tensor]]:
        """What each training device does with its part of a batch; returns its priorities, and metrics."""
        algorithm, objectives = self._algorithm, self._objectives
        algorithm.observe(sample)
        with tf.GradientTape(persistent=len(objectives) > 1) as tape:
            output = algorithm.losses(sample)
            check_losses(algorithm, output, sample)
            losses = {name: tf.reduce_mean(output.by_objective[name] * sample.weight) for name in objectives}
        gradients = {name: tape.gradient(losses[name], objectives[name].variables) for name in objectives}
        norms = {name: self._apply(name, gradients[name], learning_rate) for name in objectives}
        return output.priority, mean_of_metrics({**output.metrics, **_metrics(losses, norms)})

    def _apply(self, name: str, gradients: list[Any], learning_rate: tf.Tensor) -> tf.Tensor:
        """Updates the variables of an objective; returns the norm of the batch's gradients before clipping.

        Clipping needs the gradients of the whole batch on every device.
        """
        optimizer, objective = self.optimizers[name], self._objectives[name]
        gradients = mean_over_replicas(gradients)
        norm = tf.linalg.global_norm(gradients)
        if self._config.clip_norm:
            gradients, _ = tf.clip_by_global_norm(gradients, self._config.clip_norm, use_norm=norm)
        if objective.optimizer is None:
            optimizer.learning_rate.assign(learning_rate)
        optimizer.apply(gradients, objective.variables)
        return norm


def _metrics(losses: dict[str, tf.Tensor], norms: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """`loss` and `gradient_norm` of all objectives together and, if there are several, of each of them."""
    if len(losses) == 1:
        (loss,), (norm,) = losses.values(), norms.values()
        return {"loss": loss, "gradient_norm": norm}
    metrics = {
        "loss": tf.add_n(list(losses.values())),
        "gradient_norm": tf.linalg.global_norm(list(norms.values())),
    }
    for name, loss in losses.items():
        metrics |= {f"{name}_loss": loss, f"{name}_gradient_norm": norms[name]}
    return metrics


def _limited(progress: float) -> float:
    """A run may be a little longer than planned."""
    return min(max(progress, 0.0), 1.0)


def _make_optimizer(config: TrainerConfig) -> keras.optimizers.Optimizer:
    if config.optimizer == "adam":
        return keras.optimizers.Adam(
            config.learning_rate, beta_1=config.adam_beta_1, epsilon=config.adam_epsilon
        )
    return keras.optimizers.RMSprop(
        config.learning_rate, rho=config.rmsprop_decay, epsilon=config.rmsprop_epsilon
    )
