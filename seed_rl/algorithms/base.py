"""The Algorithm protocol, which a package implements, and checks of algorithms and of their environments."""

import abc
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from seed_rl.algorithms import AlgorithmError
from seed_rl.algorithms.policy import Policy
from seed_rl.experience.base import ExperienceConfig, UnrollConfig
from seed_rl.types import AgentOutput, ArraySpec, EnvOutput, Sample


class Objective(NamedTuple):
    """A set of variables that one optimizer updates.

    variables: the tf or Keras variables to train.
    optimizer: the algorithm's own Keras optimizer, whose learning rate the trainer leaves alone; None: the
      optimizer that the run's settings describe (`--optimizer`, `--learning_rate`, ...).
    """

    variables: Sequence[Any]
    optimizer: Any = None


class Losses(NamedTuple):
    """Losses that `Algorithm.losses` returns.

    by_objective: for each objective, a loss per unroll, float32 `[B]`; the trainer weights it and averages
      over B.
    priority: float32 `[B]`, or None if the experience has no priorities.
    metrics: scalars for the logs, by plain name.
    """

    by_objective: Mapping[str, tf.Tensor]
    priority: tf.Tensor | None
    metrics: dict[str, tf.Tensor]


class Epochs(NamedTuple):
    """Epochs of training on a rollout, in minibatches of `--batch_size` unrolls, or as many transitions.

    passes: how many times it trains on the rollout; it is reshuffled into minibatches each time.
    limit: the name of a metric and its highest value: once its mean over an epoch is above that, the other
      epochs are left out; None: no limit.
    """

    passes: int = 1
    limit: tuple[str, float] | None = None


# The objective's name in algorithms that have only one.
LOSS = "loss"


class Algorithm(tf.Module, abc.ABC):
    """The learning half of an agent: what is minimized, how experience is cut, and where it goes.

    Callers trace all methods into `tf.function`s, so these must have no Python side effects. Batched arrays
    have a batch dimension B, which is known when `losses` is traced.

    Attributes:
      unroll: how experience is cut into unrolls.
      experience: where unrolls go, for example through a queue or to replay.
      epochs: how to train on rollouts; None: a batch is trained on as a whole.
      num_eval_envs: number of environments that only evaluate, which are those with the highest ids: they
        are never trained on, and their returns are reported separately.
    """

    unroll: UnrollConfig
    experience: ExperienceConfig
    epochs: Epochs | None = None
    num_eval_envs: int = 0

    @property
    @abc.abstractmethod
    def policy(self) -> Policy:
        """The policy that acts, with the variables that this algorithm trains."""

    @property
    @abc.abstractmethod
    def objectives(self) -> Mapping[str, Objective]:
        """The objectives to minimize, by plain name; always the same. `{LOSS: ...}` if there is only one."""

    @abc.abstractmethod
    def losses(self, sample: Sample) -> Losses:
        """The loss of each objective for a training batch `[S, B, ...]`.

        With several training devices, B is a part of the batch. A loss per unroll needs no care; numbers over
        the whole batch go through `ops.means`.
        """

    def observe(self, sample: Sample) -> None:
        """Updates running statistics, in the training graph before the losses; does nothing by default.

        If there are `epochs`, it is called after the last one: training sees what acting has seen.

        With several training devices, all must compute the same statistics (`ops.means`).
        """

    def prepare(self, sample: Sample) -> Sample:
        """Computes what all minibatches of a rollout need, before the first; by default, nothing.

        Called in the training graph if there are `epochs`. With several training devices, each prepares its
        part.

        Args:
          sample: a rollout `[T + 1, B, ...]`. Its last step has not been acted on, so `agent` is zeros there.
            The weights as they are now, which have played the rollout, give the value to bootstrap from.

        Returns:
          What `losses` gets parts of, which are cut along the dimension of the batch: unrolls `[T, B, ...]`
          or, to mix the agent steps of all unrolls, transitions `[1, T * B, ...]`, for example.
        """
        return sample

    def initial_priority(self, env: EnvOutput, agent: AgentOutput) -> tf.Tensor:
        """Computes the priorities of unrolls as they enter replay; ones by default.

        Args:
          env: `[S, B]`, with an empty tuple as its observation: only the policy's outputs matter here.
          agent: `[S, B, ...]`, as returned by `Policy.act`, with all of its info. B may be unknown when this
            is traced.

        Returns:
          Priorities float32 `[B]`, at least 0.
        """
        del agent
        return tf.ones_like(env.reward[0])

    def after_update(self, iteration: tf.Tensor, progress: tf.Tensor) -> None:
        """Called in the training graph after each update, on one device; does nothing by default.

        Args:
          iteration: int64, the number of this update, from 1.
          progress: float32, the fraction of the run that is complete, 0 to 1, for schedules.
        """


def check_algorithm(found: Any) -> Algorithm:
    """Returns the object itself if it has everything that `Algorithm` requires.

    Raises:
      AlgorithmError: it does not.
    """
    name = type(found).__name__
    if not isinstance(found, Algorithm):
        raise AlgorithmError(f"{name} is not a seed_rl.algorithms.base.Algorithm; make it a subclass.")
    wanted = (("policy", Policy), ("unroll", UnrollConfig), ("experience", ExperienceConfig))
    for attribute, kind in wanted:
        value = getattr(found, attribute, None)
        if not isinstance(value, kind):
            raise AlgorithmError(
                f"{name}.{attribute} must be a {kind.__module__}.{kind.__name__}, not {value!r}."
            )
    if not found.objectives:
        raise AlgorithmError(f"{name}.objectives must name at least one objective.")
    return found


def check_losses(algorithm: Algorithm, losses: Losses, sample: Sample) -> None:
    """Checks what `Algorithm.losses` returned for a batch; may be traced.

    Raises:
      AlgorithmError: a shape is wrong, or the names do not match the objectives.
    """
    method = f"{type(algorithm).__name__}.losses"
    names, found = sorted(algorithm.objectives), sorted(losses.by_objective)
    if names != found:
        raise AlgorithmError(
            f"{method} must return a loss for each objective ({', '.join(names)}), not for "
            f"{', '.join(found) or 'none'}."
        )
    tensors: dict[str, tf.Tensor] = dict(losses.by_objective)
    if losses.priority is not None:
        tensors["priority"] = losses.priority
    for name, tensor in tensors.items():
        if not tensor.shape.is_compatible_with(sample.weight.shape):
            raise AlgorithmError(
                f"{method} must return '{name}' of shape [B] = {list(sample.weight.shape)}, one number "
                f"per unroll, not of shape {list(tensor.shape)}."
            )


def num_actions(spec: ArraySpec, algorithm: str) -> int:
    """The number of actions of an environment with one discrete action.

    Raises:
      ValueError: its actions are others; the message names the algorithm.
    """
    if not spec.is_discrete or spec.shape != ():
        raise ValueError(
            f"{algorithm} needs one discrete action, but the environment's is {spec}; choose another --agent."
        )
    return spec.num_values[0]


def num_training_envs(num_envs: int, num_eval_envs: int) -> int:
    """The number of environments that train; those that evaluate have the highest ids.

    Raises:
      ValueError: all environments only evaluate.
    """
    if num_eval_envs >= num_envs:
        raise ValueError(
            f"--num_eval_envs={num_eval_envs} leaves none of the {num_envs} environments to train "
            "on; set it lower."
        )
    return num_envs - num_eval_envs
