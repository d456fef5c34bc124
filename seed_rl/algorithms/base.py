"""The Algorithm protocol: an algorithm is one package that implements this, and one line in the registry."""

import abc
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from seed_rl.algorithms.policy import Policy
from seed_rl.experience.base import ExperienceConfig
from seed_rl.experience.unroll_config import UnrollConfig
from seed_rl.types import AgentOutput, EnvOutput, Sample


class Objective(NamedTuple):
    """Variables that one optimizer updates.

    variables: what is differentiated (tf or Keras variables).
    optimizer: a Keras optimizer of the algorithm's own, whose learning rate the trainer leaves alone; None:
      as the run's settings say (`--optimizer`, `--learning_rate`, ...).
    """

    variables: Sequence[Any]
    optimizer: Any = None


class Losses(NamedTuple):
    """What `Algorithm.losses` returns.

    by_objective: float32 `[B]` for each objective, per unroll; the trainer weighs it and averages over B.
    priority: float32 `[B]`, or None where experience has no priorities.
    metrics: scalars by plain name, for the logs.
    """

    by_objective: Mapping[str, tf.Tensor]
    priority: tf.Tensor | None
    metrics: dict[str, tf.Tensor]


# The name of the only objective of an algorithm that has just one.
LOSS = "loss"


class Algorithm(tf.Module, abc.ABC):
    """What learns: what is minimised, how experience is cut, and where it goes.

    All methods are traced into `tf.function`s by their callers: no Python side effects. Batched arrays have
    the leading dimension B, which is known when `losses` is traced.

    Attributes:
      unroll: how experience is cut.
      experience: where unrolls go, for example through a queue or to replay.
      num_eval_envs: environments, those with the highest ids, that only evaluate: they are never trained on,
        and their returns are reported separately.
    """

    unroll: UnrollConfig
    experience: ExperienceConfig
    num_eval_envs: int = 0

    @property
    @abc.abstractmethod
    def policy(self) -> Policy:
        """What acts, with the variables that this algorithm trains."""

    @property
    @abc.abstractmethod
    def objectives(self) -> Mapping[str, Objective]:
        """What is minimised, by plain name; always the same. `{LOSS: ...}` where there is just one."""

    @abc.abstractmethod
    def losses(self, sample: Sample) -> Losses:
        """The loss of each objective for a training batch `[S, B, ...]`."""

    def observe(self, sample: Sample) -> None:
        """Called in the training graph before the losses, for running statistics. By default nothing."""

    def initial_priority(self, env: EnvOutput, agent: AgentOutput) -> tf.Tensor:
        """Priorities of unrolls as they enter replay; ones by default.

        Args:
          env: `[S, B]`, with an empty tuple for its observation: what counts is what the policy made of it.
          agent: `[S, B, ...]`, as `Policy.act` answered, with all of its info. B may be unknown when this is
            traced.

        Returns:
          Priorities float32 `[B]`, at least 0.
        """
        del agent
        return tf.ones_like(env.reward[0])

    def after_update(self, iteration: tf.Tensor) -> None:
        """Called in the training graph after update `iteration` (int64, from 1); nothing by default."""
