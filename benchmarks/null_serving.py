"""The real server, batcher and inference core around a policy that does nothing."""

import contextlib

import tensorflow as tf

from benchmarks.constant_serving import Serving
from benchmarks.echo import null_spec
from seed_rl.algorithms.policy import Policy
from seed_rl.experience.base import Batch, Setup, UnrollConfig
from seed_rl.experience.experience_config import ReplayConfig
from seed_rl.experience.fifo import Fifo
from seed_rl.inference.core import InferenceCore
from seed_rl.types import AgentOutput, ArraySpec, EnvOutput, Nest

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
        return AgentOutput(
            tf.zeros([tf.shape(env_ids)[0], *self._action.shape], self._action.dtype), {}
        ), state


class NullServing(Serving):
    """Serves the null policy.

    Unrolls are cut as in R2D2 and go to replay, or as in V-trace and are discarded where they would go
    through a queue.
    """

    def __init__(
        self,
        address: str,
        size: str,
        num_envs: int,
        envs_per_message: int,
        inference_batch_size: int,
        replay: bool,
        num_gateways: int = 0,
        unroll_length: int = 20,
    ):
        """Starts serving; see `Serving`.

        Args:
          address: see `Serving`.
          size: see `Serving`.
          num_envs: see `Serving`.
          envs_per_message: see `Serving`.
          inference_batch_size: see `Serving`.
          replay: whether unrolls go to replay, which are then longer.
          num_gateways: see `Serving`.
          unroll_length: agent steps of the others.
        """
        spec = null_spec(size)
        unroll = UnrollConfig(80, 40) if replay else UnrollConfig(unroll_length)
        # In replay nothing is drawn, so nothing may wait: the minimum size is never reached.
        config = ReplayConfig(replay_buffer_size=1000, replay_buffer_min_size=1000, replay_ratio=1e-9)
        setup = Setup(num_envs, unroll, _BATCH_SIZE)
        store = (config.make(setup) if replay else _Discarding(setup)).store
        self._core = InferenceCore(
            NullPolicy(spec.action), spec, num_envs, 0, store, lambda: contextlib.nullcontext(0)
        )
        super().__init__(
            address, size, num_envs, envs_per_message, inference_batch_size, self._core.serve, num_gateways
        )

    def inference_figures(self) -> dict[str, float]:
        """The figures of the inference core since the last call."""
        return self._core.figures.take()

    def has_answered(self) -> bool:
        """Whether there are figures."""
        return "inference_batch_size" in self.inference_figures()


class _Discarding(Fifo):
    """A queue that drops every batch."""

    def add(self, completed: int, batches: list[Batch]) -> None:
        """Drops the batches, whose memory can then be used again."""
        del completed, batches
