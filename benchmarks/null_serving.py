"""The real server, batcher and inference core around an agent that does nothing."""

import threading
from typing import Any

import tensorflow as tf

from benchmarks.echo import null_spec
from benchmarks.null_suite import NullConfig
from seed_rl.agents.base import Agent, LossOutput, UnrollConfig
from seed_rl.experience.config import FifoConfig
from seed_rl.inference.batcher import Batcher
from seed_rl.inference.core import InferenceCore
from seed_rl.inference.server import InferenceServer
from seed_rl.inference.service import Request
from seed_rl.types import AgentOutput, ArraySpec, EnvOutput, Nest, Sample, Unroll
from seed_rl.wire.protocol import EnvironmentIdentity


class NullAgent(Agent):
    """Answers zeros; learns nothing."""

    def __init__(self, action: ArraySpec):
        """Makes an agent for actions of this spec."""
        super().__init__(name="null_agent")
        self.unroll = UnrollConfig(20)
        self.experience = FifoConfig()
        self._action = action

    @property
    def learned_variables(self) -> list[Any]:
        """None."""
        return []

    def initial_state(self, batch_size: int | tf.Tensor) -> Nest:
        """None."""
        del batch_size
        return ()

    def act(
        self, prev_action: tf.Tensor, env: EnvOutput, state: Nest, env_ids: tf.Tensor
    ) -> tuple[AgentOutput, Nest]:
        """Action 0 for everybody; see `Agent.act`."""
        del prev_action, env
        return AgentOutput(
            tf.zeros([tf.shape(env_ids)[0], *self._action.shape], self._action.dtype), {}
        ), state

    def loss(self, sample: Sample) -> LossOutput:
        """Not there."""
        raise NotImplementedError("The null agent does not learn.")


class NullServing:
    """Everything of a learner between the wire and the experience; unrolls are thrown away."""

    def __init__(
        self, address: str, size: str, num_envs: int, envs_per_message: int, inference_batch_size: int
    ):
        """Starts serving.

        Args:
          address: where to listen.
          size: of the observations, one of `null_suite.SIZES`.
          num_envs: environments over all clients.
          envs_per_message: environments in a message.
          inference_batch_size: most environments in an inference call.
        """
        spec = null_spec(size)
        identity = EnvironmentIdentity("null", NullConfig(size=size).to_dict(), spec)
        self._envs_per_message = envs_per_message
        self._core = InferenceCore(NullAgent(spec.action), spec, num_envs, _discard, lambda: 0)
        self._batcher: Batcher[Request] = Batcher(inference_batch_size, 0.02)
        self._server = InferenceServer(address, identity, num_envs, self._batcher, envs_per_message)
        self._thread = threading.Thread(
            target=self._core.serve, args=(self._batcher, self._server.deliver), name="inference", daemon=True
        )
        self._thread.start()

    @property
    def messages(self) -> int:
        """Answered so far."""
        return self._core.agent_steps // self._envs_per_message

    def inference_figures(self) -> dict[str, float]:
        """What the inference core says since it was last asked."""
        return self._core.figures.take()

    def stop(self) -> None:
        """Ends every stream as at the end of training; a second call does nothing."""
        self._batcher.close()
        self._thread.join()
        self._server.stop()


def _discard(unrolls: list[Unroll]) -> None:
    del unrolls
