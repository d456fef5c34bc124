"""Servers for benchmarks.serving: the real one around any inference, and a bare gRPC echo. No TensorFlow."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import grpc

from benchmarks.null_suite import NullConfig, RoundTrips, null_suite
from seed_rl.environments.making import suite_spec
from seed_rl.launch.watch import Gateways, gateway_commands
from seed_rl.serving.batcher import Batcher
from seed_rl.serving.connections import Connections
from seed_rl.serving.gateway import gateway_addresses, private_address
from seed_rl.serving.listener import Listener
from seed_rl.serving.request import Answer, Request
from seed_rl.serving.server import InferenceServer
from seed_rl.serving.shared_memory import make_wake_up_set
from seed_rl.serving.tasks import Task
from seed_rl.types import EnvironmentSpec
from seed_rl.wire.codec import ActionCodec, StepCodec
from seed_rl.wire.protocol import SERVICE, EnvironmentDescription, channel_options, max_message_bytes

METHOD = "/benchmarks.Echo/Echo"

# As in seed_rl.wire.client and seed_rl.serving.server, except for the limits on message size.
CHANNEL_OPTIONS = [*channel_options(-1), ("grpc.use_local_subchannel_pool", 1)]

Deliver = Callable[[list[tuple[Request, Answer]]], None]


class Case(NamedTuple):
    """An observation size and a number of environments in a message."""

    size: str
    envs: int

    @property
    def name(self) -> str:
        """The name of the case in the result."""
        return f"{self.size}_{self.envs}"

    @property
    def spec(self) -> EnvironmentSpec:
        """The spec of its null environments."""
        return suite_spec(null_suite(RoundTrips(), 1), NullConfig(size=self.size), 0)

    @property
    def message_bytes(self) -> tuple[int, int]:
        """Bytes of a step's records, and of the actions in response."""
        records, actions = StepCodec(self.spec).record_bytes, ActionCodec(self.spec.action).action_bytes
        return self.envs * records, self.envs * actions


class Serving:
    """The part of a learner between the wire and the experience, around any kind of inference.

    Attributes:
      streams: number of environment groups that are connected so far.
      figures: a function that returns the figures of inference since its last call, if there are any.
    """

    def __init__(
        self,
        address: str,
        case: Case,
        num_envs: int,
        batch_size: int,
        num_gateways: int,
        serve: Callable[[Batcher[Request], Deliver], None],
        figures: Callable[[], dict[str, float]] = dict,
    ):
        """Starts serving `num_envs` environments over all clients.

        `serve` answers batches of at most `batch_size` environments until the batcher is closed. Gateways
        serve the clients in this process's place, see `serving.gateway`.
        """
        self.streams, self.figures, self._envs_per_message = 0, figures, case.envs
        environment = EnvironmentDescription("null", NullConfig(size=case.size).to_dict(), case.spec)
        self._batcher: Batcher[Request] = Batcher(batch_size, 0.02, make_wake_up_set())
        behind = private_address(address)
        longest = max_message_bytes(StepCodec(case.spec).record_bytes, num_envs)
        self._listener = Listener(address, longest, (SERVICE,), also=behind)
        connections = Connections(
            environment, num_envs, [self._batcher], case.envs, on_actor=self._count_streams
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
    def gateway_pids(self) -> Sequence[int]:
        """Process ids of the gateways."""
        return self._gateways.pids

    def stop(self) -> None:
        """Ends every stream as at the end of training."""
        self._batcher.close()
        self._thread.join()
        self._server.stop()
        self._gateways.stop()
        self._listener.stop()


def zeros(case: Case) -> Callable[[Batcher[Request], Deliver], None]:
    """A function for `Serving` that answers with zeros: what is left is the way of a step and back."""
    action_bytes = ActionCodec(case.spec.action).action_bytes

    def serve(batcher: Batcher[Request], deliver: Deliver) -> None:
        while (batch := batcher.next_batch()) is not None:
            batcher.finish([client for client, _ in batch])
            deliver([(request, bytes(action_bytes * request.group.num_envs)) for _, request in batch])

    return serve


class EchoServer:
    """A bare gRPC echo, like `Serving` from outside; an event loop in its own thread.

    It responds to each message with as many bytes as its actions would take.

    Attributes:
      streams: number of streams that are open now.
      figures: as of `Serving`; there are none.
      gateway_pids: none, as of a server that serves its clients itself.
    """

    def __init__(self, address: str, response: bytes):
        """Starts listening; `response` is sent in reply to every message."""
        self.streams, self.figures = 0, dict
        self.gateway_pids: Sequence[int] = ()
        self._response = response
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="echo-server", daemon=True)
        self._thread.start()
        self._server = self._run(self._start(address))

    async def _start(self, address: str) -> grpc.aio.Server:
        options = [*CHANNEL_OPTIONS, ("grpc.so_reuseport", 0)]
        server = grpc.aio.server(options=options, compression=grpc.Compression.NoCompression)
        service, method = METHOD.strip("/").split("/")
        handlers = {method: grpc.stream_stream_rpc_method_handler(self._echo)}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
        server.add_insecure_port(address)
        await server.start()
        return server

    async def _echo(self, request_iterator: Any, context: Any) -> None:
        del request_iterator
        self.streams += 1
        try:
            while await context.read() is not grpc.aio.EOF:
                await context.write(self._response)
        finally:
            self.streams -= 1

    def stop(self) -> None:
        """Stops listening; the clients have ended."""
        self._run(self._server.stop(3.0))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()
