"""The real server, batcher and inference core around a policy that does nothing."""

import contextlib
import threading

import numpy as np
import tensorflow as tf

from benchmarks.echo import null_spec
from benchmarks.null_suite import NullConfig
from seed_rl.algorithms.policy import Policy
from seed_rl.experience.base import Batch, Experience
from seed_rl.experience.config import ReplayConfig
from seed_rl.experience.fifo import Fifo
from seed_rl.experience.unroll_config import UnrollConfig
from seed_rl.inference.core import InferenceCore
from seed_rl.launch.gateways import Gateways, gateway_commands
from seed_rl.serving.batcher import Batcher
from seed_rl.serving.doorbell import make_bell
from seed_rl.serving.listener import Listener
from seed_rl.serving.request import Request
from seed_rl.serving.server import InferenceServer
from seed_rl.serving.slots import Lease
from seed_rl.types import AgentOutput, ArraySpec, EnvOutput, Nest
from seed_rl.wire.codec import StepCodec
from seed_rl.wire.gateways import gateway_addresses, private_address
from seed_rl.wire.protocol import EnvironmentDescription, max_message_bytes

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


class NullServing:
    """The part of a learner between the wire and the experience.

    Unrolls are cut as in R2D2 and go to replay, or as in V-trace and are discarded where they would go
    through a queue.

    Attributes:
      streams: number of streams opened so far.
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
    ):
        """Starts serving.

        Args:
          address: where to listen.
          size: size of the observations, one of `null_suite.SIZES`.
          num_envs: environments over all clients.
          envs_per_message: environments in a message.
          inference_batch_size: most environments in an inference call.
          replay: whether unrolls go to replay.
          num_gateways: processes that serve the clients in this one's place.
        """
        spec = null_spec(size)
        environment = EnvironmentDescription("null", NullConfig(size=size).to_dict(), spec)
        unroll = UnrollConfig(80, 40) if replay else UnrollConfig(20)
        experience = _replay(unroll) if replay else _Discarding(_BATCH_SIZE)
        store = experience.store(num_envs, unroll)
        self._core = InferenceCore(
            NullPolicy(spec.action), spec, num_envs, 0, store, lambda: contextlib.nullcontext(0)
        )
        self._batcher: Batcher[Request] = Batcher(inference_batch_size, 0.02, make_bell())
        self.streams = 0
        gateways = gateway_addresses(address, num_gateways)
        behind = private_address(address)
        self._listener = Listener(
            address, max_message_bytes(StepCodec(spec).record_bytes, envs_per_message), also=behind
        )
        self._server = InferenceServer(
            address,
            environment,
            num_envs,
            [self._batcher],
            envs_per_message,
            on_lease=self._count_stream,
            listener=self._listener,
        )
        self._gateways = Gateways(gateway_commands(gateways, behind, {}))
        self._thread = threading.Thread(
            target=self._core.serve, args=(self._batcher, self._server.deliver), name="inference", daemon=True
        )
        self._thread.start()

    def _count_stream(self, lease: Lease) -> None:
        del lease
        self.streams += 1

    @property
    def gateway_pids(self) -> list[int]:
        """Process ids of the gateways."""
        return self._gateways.pids

    def inference_figures(self) -> dict[str, float]:
        """The figures of the inference core since the last call."""
        return self._core.figures.take()

    def stop(self) -> None:
        """Ends every stream as at the end of training; a second call does nothing."""
        self._batcher.close()
        self._thread.join()
        self._server.stop()
        self._gateways.stop()
        self._listener.stop()


def _replay(unroll: UnrollConfig) -> Experience:
    # Nothing is drawn, so nothing may wait: the minimum size is never reached.
    config = ReplayConfig(replay_buffer_size=1000, replay_ratio=1e-9)
    return config.make(64, unroll, lambda unrolls: np.ones(len(unrolls)), seed=0)


class _Discarding(Fifo):
    """A queue that drops every batch."""

    def add(self, completed: int, batches: list[Batch]) -> None:
        """Drops the batches, whose memory can then be used again."""
        del completed, batches
