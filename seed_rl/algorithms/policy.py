"""The Policy protocol: the only part of an algorithm that inference, evaluation and export use."""

import abc

import tensorflow as tf

from seed_rl.types import AgentOutput, EnvOutput, Nest

# Output `[B, ...]` and the next recurrent state, nest of `[B, ...]`.
Acted = tuple[AgentOutput, Nest]


class Policy(tf.Module, abc.ABC):
    """Policy: chooses actions.

    Callers trace all methods into `tf.function`s, so these must have no Python side effects. Batched arrays
    have a leading dimension B, which may be unknown when they are traced.
    """

    @abc.abstractmethod
    def initial_state(self, batch_size: int | tf.Tensor) -> Nest:
        """Recurrent state before the first step: nest of `[B, ...]`; an empty tuple if there is none."""

    @abc.abstractmethod
    def act(self, prev_action: tf.Tensor, env: EnvOutput, state: Nest, env_ids: tf.Tensor) -> Acted:
        """Chooses actions.

        Args:
          prev_action: `[B, ...]`, the actions that produced `env`.
          env: `[B, ...]`. Where `env.done` is set, the policy itself resets its recurrent state first.
          state: nest of `[B, ...]`.
          env_ids: `[B]` int32, for per-environment exploration: 0 to num_envs - 1 in training; ids from
            num_envs on belong to environments that only evaluate.

        Returns:
          The output `[B, ...]` and the next recurrent state, nest of `[B, ...]`. Floats in `info` must be at
          most 1e8 in absolute value, and actions and states must be finite: inference refuses environments
          whose rows break these rules.
        """

    def act_greedy(self, prev_action: tf.Tensor, env: EnvOutput, state: Nest, env_ids: tf.Tensor) -> Acted:
        """Takes the best actions, for evaluation; by default `act`, for policies that do not explore."""
        return self.act(prev_action, env, state, env_ids)
