"""The inference server: hosts the gRPC service of inference. No TensorFlow."""

from collections.abc import Callable, Sequence

from seed_rl.messages import warn
from seed_rl.serving.batcher import Batcher
from seed_rl.serving.board import Board
from seed_rl.serving.board_door import BoardDoor
from seed_rl.serving.leases import LeaseDesk
from seed_rl.serving.listener import AddressError, Listener
from seed_rl.serving.refusal import RefusedError
from seed_rl.serving.request import Answer, Request
from seed_rl.serving.service import InferenceService
from seed_rl.serving.silence import Limits
from seed_rl.serving.slots import Lease
from seed_rl.types import EnvironmentSpec
from seed_rl.wire.board import is_supported, part_layout
from seed_rl.wire.generated import inference_pb2 as pb
from seed_rl.wire.hosts import LearnerHosts
from seed_rl.wire.protocol import SERVICE, EnvironmentDescription
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
        max_envs_per_message: int,
        on_lease: Callable[[Lease], None] = lambda lease: None,
        on_episodes: Callable[[list[pb.Episode]], None] = lambda episodes: None,
        security: Security = Security(),  # noqa: B008 (immutable)
        num_eval_envs: int = 0,
        limits: Limits = Limits(),  # noqa: B008 (immutable)
        hosts: LearnerHosts | None = None,
        listener: Listener | None = None,
        gateways: Sequence[str] = (),
    ):
        """Starts serving.

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
          hosts: all learner hosts, if there are several; this one serves its share of the environments.
          listener: what listens on the address already; None: it is made here.
          gateways: addresses of the gateways, to which actors are sent that may have any task.

        Raises:
          AddressError: the server cannot listen on the address, or a learner already does.
        """
        service = InferenceService(
            environment,
            num_envs,
            max_envs_per_message,
            batchers,
            on_lease,
            on_episodes,
            num_eval_envs,
            limits,
            hosts.served(num_envs) if hosts else None,
        )
        self._service, self._owns_listener = service, listener is None
        service.gateways = gateways
        most_bytes = service.max_message_bytes
        self._listener = listener or Listener(address, most_bytes, (SERVICE,), security, limits)
        self.port = self._listener.port
        if hosts:
            desk = LeaseDesk(hosts, service, num_envs, security.between_learners())
            service.lease = desk.lease
            self._listener.add(desk.handlers())
        self._board, self._door = Board(environment.spec, self._refuse, on_episodes), None
        if is_supported() and all(batcher.bell for batcher in batchers):
            self._door = self._listener.run(self._open_board(address, environment.spec, num_envs, limits))
        self._listener.add(service.handlers())

    async def _open_board(
        self, address: str, spec: EnvironmentSpec, num_envs: int, limits: Limits
    ) -> BoardDoor | None:
        """Offers actors on this machine shared memory; without it, they send messages."""
        try:
            door = BoardDoor(address, self._board, num_envs, part_layout(spec, 1).size, limits)
        except OSError as error:
            warn(f"Actors on this machine cannot share memory with the learner ({error}).")
            return None
        self._service.open_board(self._board, door.description)
        return door

    def deliver(self, answers: list[tuple[Request, Answer]]) -> None:
        """Sends answers to the actors that wait for them; may be called from any thread."""
        if others := self._board.deliver(answers):
            self._listener.call_soon(self._service.deliver, others)

    def _refuse(self, lease: Lease, refusal: RefusedError) -> None:
        if self._listener.is_open:
            self._listener.call_soon(self._service.refuse, lease, refusal)

    def check(self) -> None:
        """Raises NotServingError if new actors cannot connect any more."""
        self._listener.check()

    def stop(self, reason: str = "") -> None:
        """Ends every stream, and stops listening if it began to; a second call does nothing.

        Args:
          reason: empty if training is complete, so that actors exit; otherwise why the learner stops, and
            actors reconnect when there is a learner again.
        """
        if self._listener.is_open:
            self._listener.run(self._end(reason))
            if self._owns_listener:
                self._listener.stop()

    async def _end(self, reason: str) -> None:
        self._service.end(reason)
        await self._service.wait_until_left(_GRACE_SECS)
        if self._door:
            self._door.close()
