"""The inference server: connections over gRPC and shared memory. No TensorFlow."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from seed_rl.messages import warn
from seed_rl.serving.connection import Connection, FirstMessages, Limits, OnEnd
from seed_rl.serving.connections import Connections
from seed_rl.serving.listener import Listener, most_connections
from seed_rl.serving.live import SERVICE as LIVE_SERVICE
from seed_rl.serving.live import Live
from seed_rl.serving.request import Answer, Request
from seed_rl.serving.service import InferenceService, MessageCarrier
from seed_rl.serving.shared_memory import MemoryServer
from seed_rl.wire import shared_memory
from seed_rl.wire.generated import inference_pb2 as pb
from seed_rl.wire.protocol import SERVICE, max_message_bytes
from seed_rl.wire.security import Security, WebConfig

_PAGE = Path(__file__).with_name("page.html")


class InferenceServer(InferenceService):
    """A learner's service: passes steps to the batchers of its connections, and sends the answers back.

    Attributes:
      port: where it listens; 0 for a unix socket.
      web_port: where it listens for browsers; 0 if it does not.
    """

    def __init__(
        self,
        address: str,
        connections: Connections,
        security: Security = Security(),  # noqa: B008 (immutable)
        limits: Limits = Limits(),  # noqa: B008 (immutable)
        listener: Listener | None = None,
        on_refusal: Callable[[], None] = lambda: None,
        web: WebConfig = WebConfig(),  # noqa: B008 (immutable)
        live: Live | None = None,
    ):
        """Starts serving.

        Args:
          address: unix:PATH or HOST:PORT (port 0 picks a free one).
          connections: decide everything.
          security: TLS and token that actors need.
          limits: of what silent peers may use.
          listener: what listens on the address already; None: it is made here.
          on_refusal: called for each connection that is refused, on the event loop.
          web: whether browsers may connect as well.
          live: the page for those; None: there is none.

        Raises:
          AddressError: the server cannot listen on the address, or a learner already does.
        """
        num_envs = connections.num_envs
        most_waiting = num_envs + limits.spare_streams
        super().__init__(limits.join_secs, most_waiting, on_refusal)
        if (most := most_connections()) < num_envs:
            warn(
                f"only {most} of up to {num_envs} actors (--num_envs) can connect; raise the limit on open "
                f"files (ulimit -n) by {2 * (num_envs - most)}."
            )
        self._connections, self._owns_listener = connections, listener is None
        most_bytes = max_message_bytes(connections.size.record_bytes, num_envs)
        self._listener = listener or Listener(address, most_bytes, (SERVICE,), security, limits)
        self.port = self._listener.port
        self._memory: MemoryServer | None = None
        if shared_memory.is_supported() and all(batcher.wake_ups for batcher in connections.batchers):
            keys = FirstMessages(limits.handshake_secs, most_waiting)
            self._memory = self._listener.run(self._share_memory(address, keys))
        self._listener.on_refusal = self._report
        self._listener.add(SERVICE, self.connect)
        self._live, page, self.web_port = live, None, 0
        if live:
            live.actors, page = connections.described, _PAGE.read_bytes()
            self._listener.add(LIVE_SERVICE, live.answer)
        if web.web_address:
            self.web_port = self._listener.open_web(web.web_address, web.origins, page)

    async def _share_memory(self, address: str, keys: FirstMessages) -> MemoryServer | None:
        """Offers actors on this machine shared memory; without it, they send messages."""
        try:
            return MemoryServer(address, self._connections.spec, keys)
        except OSError as error:
            warn(f"Actors on this machine cannot share memory with the learner ({error}).")
            return None

    async def _join(self, join: pb.Join, context: Any, end: OnEnd) -> tuple[Connection | None, pb.Welcome]:
        is_near = context.peer().startswith(("unix", "web"))
        connection, welcome = self._connections.join(join, end, is_near)
        if connection and self._memory and join.can_share_memory and not join.holds_policy:
            self._memory.offer(connection, join, welcome)
        return connection, welcome

    async def _ready(self, connection: Connection, ready: pb.Ready, stream: MessageCarrier) -> None:
        self._connections.ready(connection, ready, stream)

    def deliver(self, answers: list[tuple[Request, Answer]]) -> None:
        """Sends answers to the actors that wait for them; may be called from any thread."""
        if self._listener.is_open:
            self._connections.deliver(answers, self._listener.call_soon)

    def check(self) -> None:
        """Raises NotServingError if new actors cannot connect any more."""
        self._listener.check()

    def stop(self, reason: str = "") -> None:
        """Ends every connection, and stops listening if it began to; a second call does nothing.

        The listener gives the streams time to end, so that the actors get the reason.

        Args:
          reason: empty if training is complete, so that actors exit; otherwise why the learner stops, and
            actors reconnect when there is a learner again.
        """
        if self._listener.is_open:
            self._listener.run(self._end(reason))
            if self._owns_listener:
                self._listener.stop()

    async def _end(self, reason: str) -> None:
        self._connections.end(reason)
        if self._live:
            await self._live.end(reason)
        if self._memory:
            self._memory.close()
