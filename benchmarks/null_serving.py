"""The inference core around a policy in TensorFlow that does nothing, for benchmarks.serving."""

import contextlib

import tensorflow as tf

from seed_rl.algorithms.policy import Policy
from seed_rl.experience.base import Batch, Setup, UnrollConfig
from seed_rl.experience.fifo import Fifo
from seed_rl.inference.core import InferenceCore
from seed_rl.types import AgentOutput, ArraySpec, EnvironmentSpec, EnvOutput, Nest

# Unrolls in a training batch.
_BATCH_SIZE = 32


class NullPolicy(Policy):
    """Always chooses the zero action."""

    def __init__(self, action: ArraySpec):
        """Creates a policy for actions of this spec."""
        super().__init__(name="null_policy")
        self._action = action

    def initial_state(self, batch_size: int | tf.Tensor) -> Nest:
        """Returns the empty state: there is no recurrence."""
        del batch_size
        return ()

    def act(
        self, prev_action: tf.Tensor, env: EnvOutput, state: Nest, env_ids: tf.Tensor
    ) -> tuple[AgentOutput, Nest]:
        """Returns action 0 for every environment; see `Policy.act`."""
        del prev_action, env
        action = tf.zeros([tf.shape(env_ids)[0], *self._action.shape], self._action.dtype)
        return AgentOutput(action, {}), state


def null_core(spec: EnvironmentSpec, num_envs: int) -> InferenceCore:
    """An inference core with the null policy, whose unrolls of 20 agent steps are discarded."""
    store = _Discarding(Setup(num_envs, UnrollConfig(20), _BATCH_SIZE)).store
    policy = NullPolicy(spec.action)
    return InferenceCore(policy, spec, num_envs, 0, store, lambda: contextlib.nullcontext(0))


class _Discarding(Fifo):
    """A queue that drops every batch."""

    def add(self, completed: int, batches: list[Batch]) -> None:
        """Drops the batches, whose memory can then be used again."""
        del completed, batches
