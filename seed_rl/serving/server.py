"""The inference server: an event loop in its own thread that hosts the gRPC service. No TensorFlow."""

import asyncio
import os
import resource
import threading
from collections.abc import Callable, Sequence

import grpc

from seed_rl.serving.batcher import Batcher
from seed_rl.serving.request import Answer, Request
from seed_rl.serving.service import InferenceService
from seed_rl.serving.silence import Limits
from seed_rl.serving.slots import Lease
from seed_rl.serving.sockets import SocketPath, is_socket_file
from seed_rl.wire.generated import inference_pb2 as pb
from seed_rl.wire.protocol import EnvironmentDescription, channel_options
from seed_rl.wire.security import Security, TokenCheck

_GRACE_SECS = 3.0

# Reserved for files that a learner opens besides connections: checkpoints, metrics, libraries.
_SPARE_DESCRIPTORS = 64
_MOST_CONNECTIONS = 2**31 - 1  # As many as gRPC can count.


class AddressError(ValueError):
    """The server cannot listen on the address; the message is a sentence for the user."""


class InferenceServer:
    """Listens on an address, passes steps to batchers, and sends the answers back."""

    def __init__(
        self,
        address: str,
        environment: EnvironmentDescription,
        num_envs: int,
        batchers: Sequence[Batcher[Request]],
        max_envs_per_message: int,
        on_lease: Callable[[Lease], None] = lambda lease: None,
        on_episodes: Callable[[list[pb.Episode]], None] = lambda episodes: None,
        security: Security = Security(),  # noqa: B008 (immutable)
        num_eval_envs: int = 0,
        limits: Limits = Limits(),  # noqa: B008 (immutable)
    ):
        """Starts listening.

        Args:
          address: unix:PATH or HOST:PORT (port 0 picks a free one, see `port`).
          environment: the environments that actors must have.
          num_envs: environments of the run.
          batchers: where steps go, one for each part of the environments.
          max_envs_per_message: largest environment group.
          on_lease: called for each accepted stream.
          on_episodes: called with the episodes that actors report.
          security: TLS and token that actors need.
          num_eval_envs: how many environments, the last ones, only evaluate.
          limits: of what silent peers may use.

        Raises:
          AddressError: the server cannot listen on the address, or a learner already does.
        """
        self.port = 0
        self._socket: SocketPath | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="inference-server", daemon=True)
        self._thread.start()

        async def start() -> tuple[grpc.aio.Server, InferenceService]:
            service = InferenceService(
                environment,
                num_envs,
                max_envs_per_message,
                batchers,
                on_lease,
                on_episodes,
                num_eval_envs,
                limits,
            )
            server = grpc.aio.server(
                options=[*channel_options(service.max_message_bytes), *_connection_options(limits)],
                compression=grpc.Compression.NoCompression,
                interceptors=[TokenCheck(security.token)] if security.token else [],
            )
            server.add_generic_rpc_handlers((service.handlers(),))
            credentials = security.server_credentials()
            place = self._socket.grpc_address if self._socket else address
            if credentials is None:
                self.port = server.add_insecure_port(place)
            else:
                self.port = server.add_secure_port(place, credentials)
            await server.start()
            return server, service

        try:
            if is_socket_file(address):
                self._socket = SocketPath(address)
            self._server, self._service = self._run(start())
            if self._socket:
                self._socket.publish()
        except (RuntimeError, OSError) as error:
            if self._socket:
                self._socket.release()
            self._end_loop()
            raise AddressError(f"Cannot listen on --server_address={address}: {error}.") from error

    def deliver(self, answers: list[tuple[Request, Answer]]) -> None:
        """Sends answers to the actors that wait for them; may be called from any thread."""
        self._loop.call_soon_threadsafe(self._service.deliver, answers)

    def stop(self, reason: str = "") -> None:
        """Ends every stream and stops listening.

        Args:
          reason: empty if training is complete, so that actors exit; otherwise why the learner stops, and
            actors reconnect when there is a learner again.
        """
        if self._loop.is_closed():
            return

        async def stop() -> None:
            self._service.end(reason)
            await self._service.wait_until_left(_GRACE_SECS)
            await self._server.stop(_GRACE_SECS)

        self._run(stop())
        if self._socket:
            self._socket.release()
        self._end_loop()

    def _run(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def _end_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def _connection_options(limits: Limits) -> list[tuple[str, int]]:
    """The gRPC options that keep silent peers from using up the process's file descriptors."""
    options = [
        ("grpc.so_reuseport", 0),
        ("grpc.server_handshake_timeout_ms", int(1e3 * limits.handshake_secs)),
        # A connection with an open stream is not idle.
        ("grpc.max_connection_idle_ms", int(1e3 * limits.idle_secs)),
    ]
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY:
        most = soft - len(os.listdir("/dev/fd")) - _SPARE_DESCRIPTORS
        options.append(("grpc.max_allowed_incoming_connections", max(1, min(most, _MOST_CONNECTIONS))))
    return options
