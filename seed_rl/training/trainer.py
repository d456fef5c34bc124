"""The trainer: gradients, their norms, clipping, schedule and optimizers of any algorithm; and priorities."""

import collections
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
import optree
import tensorflow as tf

from seed_rl.algorithms.base import Algorithm, Epochs, check_losses
from seed_rl.devices.replicas import Replicas, along_batch
from seed_rl.ops.means import mean_of_metrics, mean_over_replicas
from seed_rl.training.training_config import TrainerConfig
from seed_rl.types import Sample, Unroll


class InitialPriorities:
    """Calls `Algorithm.initial_priority` on unrolls on the host, without their observations."""

    def __init__(self, algorithm: Algorithm):
        self._compute = tf.function(algorithm.initial_priority, autograph=False, reduce_retracing=True)

    def __call__(self, unrolls: list[Unroll]) -> np.ndarray:
        """Computes the priorities float32 `[K]` of unrolls."""
        steps = [(unroll.env._replace(observation=()), unroll.agent) for unroll in unrolls]
        env, agent = optree.tree_map(lambda *x: tf.constant(np.stack(x, axis=1)), *steps)
        return self._compute(env, agent).numpy()


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
        """The algorithm must have been created in the scope of `replicas`, the training devices.

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
        self._layers = Layers(algorithm) if config.log_layer_norms else None
        self._metric_names: list[str] = []  # In the order of `_update_on_part`.

    def update(self, sample: Sample, progress: float) -> UpdateOutput:
        """Trains on a batch.

        Args:
          sample: tensors `[S, B, ...]`, as `Replicas.distribute` makes them.
          progress: fraction of the run that is complete, 0 to 1, for the schedule.
        """
        scalars = self.learning_rate(progress), _limited(progress)
        # Python's own numbers would stay in TensorFlow's cache of scalars until the process ends.
        learning_rate, progress = (tf.constant(np.float32(x)) for x in scalars)
        if self._algorithm.epochs:
            return self._update_in_epochs(sample, self._algorithm.epochs, learning_rate, progress)
        output = self._update(sample, learning_rate, progress)
        self.updates += 1
        return output

    def learning_rate(self, progress: float) -> float:
        """The learning rate at this fraction of the run."""
        progress = _limited(progress)
        rate = self._config.scaled_learning_rate
        if self._config.learning_rate_schedule == "linear":
            rate *= 1.0 - progress
        warm_up = self._config.learning_rate_warm_up_fraction
        return rate * min(1.0, progress / warm_up) if warm_up else rate

    def restored(self) -> None:
        """Must be called after a checkpoint has been restored into the variables."""
        self.updates = int(self.iteration.numpy())

    def _update_in_epochs(
        self, rollout: Sample, epochs: Epochs, learning_rate: tf.Tensor, progress: tf.Tensor
    ) -> UpdateOutput:
        """Several updates; the metrics are their means."""
        part_size = self._config.batch_size // self._replicas.count
        count = self._replicas.first(rollout.weight).shape[0] // part_size
        prepared = self._prepare(rollout)
        size = self._replicas.first(prepared.weight).shape[0]
        sums, name, limit = tf.constant(0.0), *(epochs.limit or ("", math.inf))
        epoch = 0
        while epoch < epochs.passes:
            epoch += 1
            before = sums
            for indices in tf.unstack(self._shuffled(size, count)):
                sums += self._update_on_part(prepared, indices, learning_rate, progress)
                self.updates += 1
            if name and (sums - before)[self._metric_names.index(name)] / count > limit:
                break
        self._observe(rollout)
        means = tf.unstack(sums / tf.cast(epoch * count, tf.float32))
        metrics = dict(zip(self._metric_names, means, strict=True))
        metrics |= {"epochs": tf.constant(float(epoch)), **self._rate(learning_rate)}
        return UpdateOutput(None, metrics)

    @tf.function(autograph=False)
    def _shuffled(self, size: int, count: int) -> tf.Tensor:
        """The numbers below `size` in random order, in `count` rows: int32 `[count, size / count]`.

        Outside a graph, each shuffle has a seed of its own, and TensorFlow keeps an operation for each seed.
        """
        return tf.reshape(tf.random.shuffle(tf.range(size)), [count, size // count])

    @tf.function(autograph=False)
    def _prepare(self, rollout: Sample) -> Sample:
        return self._replicas.run(self._algorithm.prepare, rollout)

    @tf.function(autograph=False)
    def _observe(self, rollout: Sample) -> None:
        self._replicas.run(self._algorithm.observe, rollout)

    @tf.function(autograph=False)
    def _update_on_part(
        self, prepared: Sample, indices: tf.Tensor, learning_rate: tf.Tensor, progress: tf.Tensor
    ) -> tf.Tensor:
        """One update on a minibatch: these places in the batch of each device. Returns the metrics `[M]`."""

        def train(prepared: Sample) -> dict[str, tf.Tensor]:
            part = along_batch(lambda x, axis: tf.gather(x, indices, axis=axis), prepared)
            return self._train(part, learning_rate)[1]

        metrics = self._replicas.first(self._replicas.run(train, prepared))
        self._metric_names = list(metrics)
        self.iteration.assign_add(1)
        self._algorithm.after_update(self.iteration, progress)
        return tf.stack([tf.cast(value, tf.float32) for value in metrics.values()])

    @tf.function(autograph=False)
    def _update(self, sample: Sample, learning_rate: tf.Tensor, progress: tf.Tensor) -> UpdateOutput:
        priority, metrics = self._replicas.run(self._observe_and_train, sample, learning_rate)
        self.iteration.assign_add(1)
        self._algorithm.after_update(self.iteration, progress)
        metrics = {**self._replicas.first(metrics), **self._rate(learning_rate)}
        return UpdateOutput(self._replicas.join(priority), metrics)

    def _rate(self, learning_rate: tf.Tensor) -> dict[str, tf.Tensor]:
        """The figure of the learning rate, if any objective follows it."""
        of_trainer = any(objective.optimizer is None for objective in self._objectives.values())
        return {"learning_rate": learning_rate} if of_trainer else {}

    def _observe_and_train(
        self, sample: Sample, learning_rate: tf.Tensor
    ) -> tuple[tf.Tensor | None, dict[str, tf.Tensor]]:
        self._algorithm.observe(sample)
        return self._train(sample, learning_rate)

    def _train(
        self, sample: Sample, learning_rate: tf.Tensor
    ) -> tuple[tf.Tensor | None, dict[str, tf.Tensor]]:
        """Trains each training device on its part of a batch; returns its priorities, and metrics."""
        algorithm, objectives = self._algorithm, self._objectives
        with tf.GradientTape(persistent=len(objectives) > 1) as tape:
            output = algorithm.losses(sample)
            check_losses(algorithm, output, sample)
            losses = {name: tf.reduce_mean(output.by_objective[name] * sample.weight) for name in objectives}
        # Clipping needs the gradients of the whole batch on every device.
        gradients = {
            name: mean_over_replicas(tape.gradient(losses[name], objective.variables))
            for name, objective in objectives.items()
        }
        trained = [variable for objective in objectives.values() for variable in objective.variables]
        before = values_now(trained) if self._layers else []
        norms = {name: self._apply(name, gradients[name], learning_rate) for name in objectives}
        metrics = {**output.metrics, **_metrics(losses, norms)}
        if self._layers:
            metrics |= self._layers.norms(trained, [x for g in gradients.values() for x in g], before)
        return output.priority, mean_of_metrics(metrics)

    def _apply(self, name: str, gradients: list[Any], learning_rate: tf.Tensor) -> tf.Tensor:
        """Updates the variables of an objective; returns the norm of its gradients before clipping."""
        optimizer, objective = self.optimizers[name], self._objectives[name]
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
            config.scaled_learning_rate, beta_1=config.adam_beta_1, epsilon=config.adam_epsilon
        )
    return keras.optimizers.RMSprop(
        config.scaled_learning_rate, rho=config.rmsprop_decay, epsilon=config.rmsprop_epsilon
    )


class Layers:
    """The layers of an algorithm. They are named by the attributes on the shortest way to them.

    Stooke & Abbeel (2018), appendix C, compare their norms over batch sizes: larger batches have smaller
    gradients, and take larger but fewer steps.
    """

    def __init__(self, root: tf.Module):
        self._paths: dict[int, tuple[str, ...]] = {id(root): ()}
        found: collections.deque[Any] = collections.deque([root])
        while found:
            parent = found.popleft()
            path = self._paths[id(parent)]
            for name, child in tf.train.TrackableView.children(parent).items():
                if id(child) not in self._paths:
                    self._paths[id(child)] = (*path, name.strip("_"))
                    found.append(child)
        self._root = root  # While it lives, no other object has its ids.

    def name(self, variable: Any) -> str:
        """The layer of a variable, such as `network/trunk/core/inputs`; a variable in no layer is its own."""
        path = self._paths.get(id(variable)) or (variable.name.partition(":")[0],)
        return "/".join(path[:-1] or path)

    def norms(
        self, variables: Sequence[Any], gradients: Sequence[Any], before: Sequence[tf.Tensor]
    ) -> dict[str, tf.Tensor]:
        """L2 norms, float32 scalars `gradient_norm/LAYER`, `parameter_norm/LAYER` and `step_norm/LAYER`.

        Args:
          variables: after an update, while it is traced.
          gradients: of the whole batch, before clipping; None where no loss depends on the variable.
          before: their `values_now` before the update.
        """
        members: dict[str, list[tf.Tensor]] = collections.defaultdict(list)
        changes = zip(variables, gradients, before, values_now(variables), strict=True)
        for variable, gradient, old, new in changes:
            layer = self.name(variable)
            gradient = tf.zeros_like(old) if gradient is None else tf.convert_to_tensor(gradient)
            members[f"gradient_norm/{layer}"].append(gradient)
            members[f"parameter_norm/{layer}"].append(new)
            members[f"step_norm/{layer}"].append(new - old)
        return {
            name: tf.linalg.global_norm([tf.cast(x, tf.float32) for x in found])
            for name, found in members.items()
        }


def values_now(variables: Sequence[Any]) -> list[tf.Tensor]:
    """The values of variables now; later updates do not change them."""
    return [tf.identity(tf.convert_to_tensor(variable)) for variable in variables]
