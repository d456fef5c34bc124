"""The inference server: connections over gRPC and shared memory. No TensorFlow."""

from collections.abc import Callable, Sequence

from seed_rl.messages import warn
from seed_rl.serving.batcher import Batcher
from seed_rl.serving.connections import Connections
from seed_rl.serving.listener import AddressError, Listener
from seed_rl.serving.request import Answer, Episode, Request
from seed_rl.serving.service import InferenceService
from seed_rl.serving.shared_memory import MemoryServer
from seed_rl.serving.silence import Limits
from seed_rl.serving.tasks import Task
from seed_rl.types import EnvironmentSpec
from seed_rl.wire import shared_memory
from seed_rl.wire.codec import StepCodec
from seed_rl.wire.hosts import LearnerHosts
from seed_rl.wire.protocol import SERVICE, EnvironmentDescription, max_message_bytes
from seed_rl.wire.security import Security

__all__ = ["AddressError", "InferenceServer"]

_GRACE_SECS = 3.0


class InferenceServer:
    """Passes steps to batchers, and sends the answers back."""

    def __init__(
        self,
        address: str,
        environment: EnvironmentDescription,
        num_envs: int,
        batchers: Sequence[Batcher[Request]],
        max_group_size: int,
        on_actor: Callable[[Task], None] = lambda task: None,
        on_episodes: Callable[[list[Episode]], None] = lambda episodes: None,
        security: Security = Security(),  # noqa: B008 (immutable)
        num_eval_envs: int = 0,
        limits: Limits = Limits(),  # noqa: B008 (immutable)
        hosts: LearnerHosts | None = None,
        listener: Listener | None = None,
        gateways: Sequence[str] = (),
        seed: int = 0,
    ):
        """Starts serving.

        Args:
          address: unix:PATH or HOST:PORT (port 0 picks a free one, see `port`).
          environment: the environments that actors play.
          num_envs: environments of the run.
          batchers: where steps go, one for each part of the environments.
          max_group_size: most environments in a group.
          on_actor: called with the task of each actor that is ready.
          on_episodes: called with finished episodes.
          security: TLS and token that actors need.
          num_eval_envs: how many environments, the last ones, only evaluate.
          limits: of what silent peers may use.
          hosts: all learner hosts, if there are several; this one serves its share of the environments.
          listener: what listens on the address already; None: it is made here.
          gateways: addresses of the gateways, to which actors are sent.
          seed: of the run.

        Raises:
          AddressError: the server cannot listen on the address, or a learner already does.
        """
        most_bytes = max_message_bytes(StepCodec(environment.spec).record_bytes, num_envs)
        self._owns_listener = listener is None
        self._listener = listener or Listener(address, most_bytes, (SERVICE,), security, limits)
        self.port = self._listener.port
        self._connections = Connections(
            environment,
            num_envs,
            max_group_size,
            batchers,
            self._listener.call_soon,
            on_actor,
            on_episodes,
            num_eval_envs,
            seed,
            hosts,
            gateways,
        )
        self._memory: MemoryServer | None = None
        if shared_memory.is_supported() and all(batcher.wake_ups for batcher in batchers):
            self._memory = self._listener.run(self._share_memory(address, environment.spec, batchers, limits))
        self._service = InferenceService(self._connections, environment.spec, num_envs, limits, self._memory)
        self._listener.add(SERVICE, self._service.connect)

    async def _share_memory(
        self, address: str, spec: EnvironmentSpec, batchers: Sequence[Batcher[Request]], limits: Limits
    ) -> MemoryServer | None:
        """Offers actors on this machine shared memory; without it, they send messages."""
        try:
            return MemoryServer(address, spec, limits)
        except OSError as error:
            warn(f"Actors on this machine cannot share memory with the learner ({error}).")
            return None

    def deliver(self, answers: list[tuple[Request, Answer]]) -> None:
        """Sends answers to the actors that wait for them; may be called from any thread."""
        if self._listener.is_open:
            self._connections.deliver(answers)

    def check(self) -> None:
        """Raises NotServingError if new actors cannot connect any more."""
        self._listener.check()

    def stop(self, reason: str = "") -> None:
        """Ends every connection, and stops listening if it began to; a second call does nothing.

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
        await self._service.wait_until_left(_GRACE_SECS)
        if self._memory:
            self._memory.close()
