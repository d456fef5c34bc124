"""What acts: all that inference, evaluation and export know of an algorithm."""

import abc

import tensorflow as tf

from seed_rl.types import AgentOutput, EnvOutput, Nest


class Policy(tf.Module, abc.ABC):
    """How actions are chosen.

    All methods are traced into `tf.function`s by their callers: no Python side effects. Batched arrays have
    the leading dimension B, which may be unknown when they are traced.
    """

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
          env: `[B, ...]`. Where `env.done` is set the policy itself resets its recurrent state first.
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
        """Takes the best actions, for evaluation; by default as `act`, for policies that do not explore."""
        return self.act(prev_action, env, state, env_ids)
