"""A bare gRPC echo: the same kind of server and client as in seed_rl, raw bytes, and no inference."""

import asyncio
import threading
from typing import Any

import grpc

from benchmarks.null_suite import NullConfig, RoundTrips, null_suite
from seed_rl.environments.making import suite_spec
from seed_rl.types import EnvironmentSpec
from seed_rl.wire.codec import ActionCodec, StepCodec
from seed_rl.wire.protocol import channel_options

METHOD = "/benchmarks.Echo/Echo"

# As in seed_rl.wire.client and seed_rl.serving.server, except for the limits on message size.
CHANNEL_OPTIONS = [*channel_options(-1), ("grpc.use_local_subchannel_pool", 1)]


def null_spec(size: str) -> EnvironmentSpec:
    """The spec of null environments of this size."""
    config = NullConfig(size=size)
    return suite_spec(null_suite(RoundTrips(), 1), config, 0)


def message_sizes(size: str, envs_per_message: int) -> tuple[int, int]:
    """Bytes of a step's records and of the actions in response."""
    spec = null_spec(size)
    record, action = StepCodec(spec).record_bytes, ActionCodec(spec.action).action_bytes
    return record * envs_per_message, action * envs_per_message


class EchoServer:
    """Responds to each message with as many bytes as its actions would take; an event loop in its own thread.

    Attributes:
      streams: number of streams that are open now.
      gateway_pids: none, as of a server that serves its clients itself.
    """

    def __init__(self, address: str, response: bytes):
        """Starts listening; `response` is sent in reply to every message."""
        self.streams = 0
        self.gateway_pids: list[int] = []
        self._response = response
        self._ended = False
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
            while not self._ended and await context.read() is not grpc.aio.EOF:
                await context.write(self._response)
        finally:
            self.streams -= 1

    def inference_figures(self) -> dict[str, float]:
        """None: there is no inference."""
        return {}

    def has_answered(self) -> bool:
        """Always: the first answer takes as long as the others."""
        return True

    def stop(self) -> None:
        """Ends every stream cleanly; a second call does nothing."""
        if self._loop.is_closed():
            return
        self._ended = True
        self._run(self._end_streams())
        self._run(self._server.stop(3.0))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end_streams(self) -> None:
        """Lets every stream end on its own; one that is open when the server stops may not end cleanly."""
        deadline = self._loop.time() + 3.0
        while self.streams and self._loop.time() < deadline:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)  # The last messages of the streams are still on their way.

    def _run(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()
