"""The Agent protocol: an algorithm is one file that implements this, and one line in the registry."""

import abc
import dataclasses
from typing import Any, NamedTuple

import tensorflow as tf

from seed_rl.experience.config import FifoConfig, ReplayConfig
from seed_rl.types import AgentOutput, EnvOutput, Nest, Sample


@dataclasses.dataclass(frozen=True)
class UnrollConfig:
    """How experience is cut: `length` T and `burn_in`, both in agent steps.

    A stored unroll is `burn_in + length + 1` steps; consecutive unrolls overlap by `burn_in + 1`.
    """

    length: int
    burn_in: int = 0

    @property
    def stored_steps(self) -> int:
        """S: agent steps in a stored unroll."""
        return self.burn_in + self.length + 1


class LossOutput(NamedTuple):
    """What `Agent.loss` returns.

    loss: float32 `[B]`, per unroll; the trainer weighs it and averages over B.
    priority: float32 `[B]` or None where experience is a queue.
    metrics: scalars by plain name, for the logs.
    """

    loss: tf.Tensor
    priority: tf.Tensor | None
    metrics: dict[str, tf.Tensor]


class Agent(tf.Module, abc.ABC):
    """An algorithm: how to act, what to minimise, and where its experience goes.

    All methods are traced into `tf.function`s by their callers: no Python side effects. Batched arrays have
    the leading dimension B, which may be unknown when `act` is traced and is known when `loss` is.

    Attributes:
      unroll: how experience is cut.
      experience: where unrolls go: through a queue, or to replay.
      num_eval_envs: environments, those with the highest ids, that only evaluate: they are never trained on,
        and their returns are reported apart.
    """

    unroll: UnrollConfig
    experience: FifoConfig | ReplayConfig
    num_eval_envs: int = 0

    @property
    @abc.abstractmethod
    def learned_variables(self) -> list[Any]:
        """What the trainer differentiates and the optimizer updates (tf or Keras variables)."""

    @abc.abstractmethod
    def initial_state(self, batch_size: int | tf.Tensor) -> Nest:
        """Recurrent state before the first step: nest of `[B, ...]`; an empty tuple if there is none."""

    @abc.abstractmethod
    def act(
        self, prev_action: tf.Tensor, env: EnvOutput, state: Nest, env_ids: tf.Tensor
    ) -> tuple[AgentOutput, Nest]:
        """Chooses actions.

        Args:
          prev_action: `[B, ...]`, what produced `env`.
          env: `[B, ...]`. Where `env.done` is set the agent itself resets its recurrent state first.
          state: nest of `[B, ...]`.
          env_ids: `[B]` int32, for per-environment exploration: 0 to num_envs - 1 in training; ids from
            num_envs on are of environments that only evaluate.

        Returns:
          The answer `[B, ...]` and the next recurrent state, nest of `[B, ...]`. Floats in `info` must be at
          most 1e8 in size, and actions and states finite: inference refuses the environments of other rows.
        """

    def act_greedy(
        self, prev_action: tf.Tensor, env: EnvOutput, state: Nest, env_ids: tf.Tensor
    ) -> tuple[AgentOutput, Nest]:
        """Takes the best actions, for evaluation; by default as `act`, for agents that do not explore."""
        return self.act(prev_action, env, state, env_ids)

    @abc.abstractmethod
    def loss(self, sample: Sample) -> LossOutput:
        """The loss of a training batch `[S, B, ...]`."""

    def observe(self, sample: Sample) -> None:
        """Called in the training graph before a batch's loss, for running statistics; nothing by default."""

    def initial_priority(self, env: EnvOutput, agent: AgentOutput) -> tf.Tensor:
        """Priorities of unrolls as they enter replay; ones by default.

        Args:
          env: `[S, B]`, with an empty tuple for its observation: what counts is what the agent made of it.
          agent: `[S, B, ...]`, as `act` answered, with all of its info. B may be unknown when this is traced.

        Returns:
          Priorities float32 `[B]`, at least 0.
        """
        del agent
        return tf.ones_like(env.reward[0])

    def after_update(self, iteration: tf.Tensor) -> None:
        """Called in the training graph after update `iteration` (int64, from 1); nothing by default."""
