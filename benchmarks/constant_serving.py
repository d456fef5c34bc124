"""The real server and batcher around a thread that answers every step with zeros. No TensorFlow."""

import threading
from collections.abc import Callable

from benchmarks.echo import null_spec
from benchmarks.null_suite import NullConfig
from seed_rl.launch.watch import Gateways, gateway_commands
from seed_rl.serving.batcher import Batcher
from seed_rl.serving.connections import Connections
from seed_rl.serving.gateway import gateway_addresses, private_address
from seed_rl.serving.listener import Listener
from seed_rl.serving.request import Answer, Request
from seed_rl.serving.server import InferenceServer
from seed_rl.serving.shared_memory import make_wake_up_set
from seed_rl.serving.tasks import Task
from seed_rl.wire.codec import ActionCodec, StepCodec
from seed_rl.wire.protocol import SERVICE, EnvironmentDescription, max_message_bytes

Deliver = Callable[[list[tuple[Request, Answer]]], None]
Serve = Callable[[Batcher[Request], Deliver], None]


class Serving:
    """The part of a learner between the wire and the experience, around any kind of inference.

    Attributes:
      streams: number of environment groups that are connected so far.
    """

    def __init__(
        self,
        address: str,
        size: str,
        num_envs: int,
        envs_per_message: int,
        inference_batch_size: int,
        serve: Serve,
        num_gateways: int = 0,
    ):
        """Starts serving.

        Args:
          address: where to listen.
          size: size of the observations, one of `null_suite.SIZES`.
          num_envs: environments over all clients.
          envs_per_message: environments in a message.
          inference_batch_size: most environments in an inference call.
          serve: answers batches until the batcher is closed.
          num_gateways: processes that serve the clients in this one's place, see `serving.gateway`.
        """
        spec = null_spec(size)
        environment = EnvironmentDescription("null", NullConfig(size=size).to_dict(), spec)
        self._batcher: Batcher[Request] = Batcher(inference_batch_size, 0.02, make_wake_up_set())
        self.streams, self._envs_per_message = 0, envs_per_message
        behind = private_address(address)
        self._listener = Listener(
            address,
            max_message_bytes(StepCodec(spec).record_bytes, num_envs),
            (SERVICE,),
            also=behind,
        )
        connections = Connections(
            environment, num_envs, [self._batcher], envs_per_message, on_actor=self._count_streams
        )
        self._server = InferenceServer(address, connections, listener=self._listener)
        self._gateways = Gateways(gateway_commands(gateway_addresses(address, num_gateways), behind, {}))
        self._thread = threading.Thread(
            target=serve, args=(self._batcher, self._server.deliver), name="inference", daemon=True
        )
        self._thread.start()

    def _count_streams(self, task: Task) -> None:
        self.streams += len(task.envs) // self._envs_per_message

    @property
    def gateway_pids(self) -> list[int]:
        """Process ids of the gateways."""
        return self._gateways.pids

    def inference_figures(self) -> dict[str, float]:
        """The figures of inference since the last call, if it has any."""
        return {}

    def has_answered(self) -> bool:
        """Whether the first step has been answered, which may take longer than the others."""
        return True

    def stop(self) -> None:
        """Ends every stream as at the end of training; a second call does nothing."""
        self._batcher.close()
        self._thread.join()
        self._server.stop()
        self._gateways.stop()
        self._listener.stop()


class ConstantServing(Serving):
    """Serves zeros: what is left is the way of a step to inference and back."""

    def __init__(
        self,
        address: str,
        size: str,
        num_envs: int,
        envs_per_message: int,
        inference_batch_size: int,
        num_gateways: int = 0,
    ):
        """Starts serving; see `Serving`."""
        self._action_bytes = ActionCodec(null_spec(size).action).action_bytes
        super().__init__(
            address, size, num_envs, envs_per_message, inference_batch_size, self._serve, num_gateways
        )

    def _serve(self, batcher: Batcher[Request], deliver: Deliver) -> None:
        while (batch := batcher.next_batch()) is not None:
            batcher.finish([client for client, _ in batch])
            deliver([(request, bytes(self._action_bytes * request.group.num_envs)) for _, request in batch])
