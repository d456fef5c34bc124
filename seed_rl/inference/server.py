"""The inference server: an event loop in a thread of its own that hosts the gRPC service. No TensorFlow."""

import asyncio
import os
import stat
import threading
from collections.abc import Callable

import grpc

from seed_rl.inference.batcher import Batcher
from seed_rl.inference.service import BadStep, InferenceService, Request
from seed_rl.inference.slots import Lease
from seed_rl.wire.generated import inference_pb2 as pb
from seed_rl.wire.protocol import EnvironmentIdentity, channel_options
from seed_rl.wire.security import Security, TokenCheck

_GRACE_SECS = 3.0


class AddressError(ValueError):
    """The address cannot be listened on; the message is a sentence for the user."""


class InferenceServer:
    """Listens on an address and moves steps into a batcher and answers out of it."""

    def __init__(
        self,
        address: str,
        identity: EnvironmentIdentity,
        num_envs: int,
        batcher: Batcher[Request],
        max_envs_per_message: int,
        on_lease: Callable[[Lease], None] = lambda lease: None,
        on_episodes: Callable[[list[pb.Episode]], None] = lambda episodes: None,
        security: Security = Security(),  # noqa: B008 (immutable)
    ):
        """Starts listening.

        Args:
          address: unix:PATH or HOST:PORT (port 0 picks a free one, see `port`).
          identity: the environments that actors must have.
          num_envs: environments of the run.
          batcher: where steps go.
          max_envs_per_message: largest environment group.
          on_lease: called for each accepted stream.
          on_episodes: called with the episodes that actors report.
          security: TLS and token that actors need.

        Raises:
          AddressError: the address cannot be listened on.
        """
        self.port = 0
        self._address = address
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="inference-server", daemon=True)
        self._thread.start()

        async def start() -> tuple[grpc.aio.Server, InferenceService]:
            service = InferenceService(
                identity, num_envs, max_envs_per_message, batcher, on_lease, on_episodes
            )
            options = [*channel_options(service.max_message_bytes), ("grpc.so_reuseport", 0)]
            server = grpc.aio.server(
                options=options,
                compression=grpc.Compression.NoCompression,
                interceptors=[TokenCheck(security.token)] if security.token else [],
            )
            server.add_generic_rpc_handlers((service.handlers(),))
            credentials = security.server_credentials()
            if credentials is None:
                self.port = server.add_insecure_port(address)
            else:
                self.port = server.add_secure_port(address, credentials)
            await server.start()
            return server, service

        try:
            _free_socket_path(address)
            self._server, self._service = self._run(start())
        except (RuntimeError, OSError) as error:
            self._end_loop()
            raise AddressError(f"Cannot listen on --server_address={address}: {error}.") from error

    def deliver(self, answers: list[tuple[Request, bytes | BadStep]]) -> None:
        """Sends answers to the actors that wait for them; any thread."""
        self._loop.call_soon_threadsafe(self._service.deliver, answers)

    def stop(self, reason: str = "") -> None:
        """Ends every stream and stops listening.

        Args:
          reason: empty when training is complete (actors exit with it); otherwise why the learner stops, and
            actors come back when there is a learner again.
        """
        if self._loop.is_closed():
            return

        async def stop() -> None:
            self._service.end(reason)
            await self._service.wait_until_left(_GRACE_SECS)
            await self._server.stop(_GRACE_SECS)

        self._run(stop())
        self._end_loop()

    def _run(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def _end_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def _free_socket_path(address: str) -> None:
    """Removes the socket file that a learner that was killed left behind."""
    path = address.removeprefix("unix:")
    if path != address and os.path.exists(path):
        if not stat.S_ISSOCK(os.stat(path).st_mode):
            raise OSError(f"{path} exists and is no socket")
        os.unlink(path)
