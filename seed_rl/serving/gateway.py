"""Gateway: a stateless proxy from gRPC, for actors on other machines, to the learner's shared memory.

The learner treats each connection as that of an actor process on its machine. No TensorFlow.
"""

import asyncio
import contextlib
import functools
import secrets
from collections.abc import Iterable
from typing import Any

import grpc

from seed_rl.serving.connection import Carrier, Limits, OnEnd, Refusal, Step, check_step
from seed_rl.serving.service import InferenceService, MessageCarrier
from seed_rl.wire.client import Stream, StreamStatus
from seed_rl.wire.generated import inference_pb2 as pb
from seed_rl.wire.protocol import channel_options, record_size, sizes_of
from seed_rl.wire.shared_memory import END, EPISODES, MOST_GROUPS, MemoryLink, NoMemoryError

_MOST_WAITING = 1_024  # Streams without a Join.


def gateway_addresses(server_address: str, num_gateways: int) -> tuple[str, ...]:
    """Addresses of a learner's gateways: beside its unix:PATH, or on the ports after that of its HOST:PORT.

    Raises:
      ValueError: the port is not a number from 1, or there are not so many ports after it.
    """
    if not num_gateways or server_address.startswith("unix:"):
        return tuple(f"{server_address}.gateway{i}" for i in range(num_gateways))
    host, _, port = server_address.rpartition(":")
    if not port.isdigit() or not 0 < int(port) <= 65535 - num_gateways:
        raise ValueError(
            f"--num_gateways={num_gateways} needs as many ports after the one of --server_address="
            f"{server_address}; give a port from 1 to {65535 - num_gateways}."
        )
    return tuple(f"{host}:{int(port) + 1 + i}" for i in range(num_gateways))


def private_address(server_address: str) -> str:
    """Address that a learner listens at for its gateways, no more reachable than its own."""
    if server_address.startswith("unix:"):
        return f"{server_address}.learner"
    return f"unix-abstract:seed_rl/{secrets.token_hex(16)}"


class Gateway(InferenceService):
    """The service of a gateway to the learner at an address, which requires this metadata with each call."""

    def __init__(self, learner_address: str, metadata: list[tuple[str, str]], limits: Limits = Limits()):  # noqa: B008
        super().__init__(limits.join_secs, _MOST_WAITING)
        self._address, self._metadata = learner_address, metadata

    @functools.cached_property
    def _channel(self) -> grpc.Channel:
        """Made in the process that uses it, which may be a child of the one that made this."""
        return grpc.insecure_channel(self._address, channel_options(-1), grpc.Compression.NoCompression)

    async def _join(
        self, join: pb.Join, context: Any, end: OnEnd
    ) -> tuple["_ForwardedConnection | None", pb.Welcome]:
        if join.num_groups > MOST_GROUPS:
            raise Refusal(
                grpc.StatusCode.FAILED_PRECONDITION,
                f"A gateway carries at most {MOST_GROUPS} groups of an actor; lower --num_env_groups.",
            )
        join.can_share_memory = True
        loop, received = asyncio.get_running_loop(), asyncio.Queue[bytes | StreamStatus]()

        def put(found: bytes | StreamStatus) -> None:
            with contextlib.suppress(RuntimeError):  # The loop has been closed.
                loop.call_soon_threadsafe(received.put_nowait, found)

        call = Stream(self._channel, self._metadata, put=put)
        with contextlib.ExitStack() as at_failure:
            at_failure.callback(call.close)
            call.say(join=join)
            message = await received.get()
            if isinstance(message, StreamStatus):
                end(Refusal(*message[:2]))
                return None, pb.Welcome()
            welcome = pb.FromLearner.FromString(message).welcome
            if welcome.address:
                return None, welcome
            try:
                connection = _ForwardedConnection(call, received, join, welcome, end)
            except NoMemoryError as error:
                sentence = f"The gateway cannot share memory with the learner ({error}); connect again."
                raise Refusal(grpc.StatusCode.UNAVAILABLE, sentence) from None
            at_failure.pop_all()
        welcome.ClearField("memory")
        return connection, welcome

    async def _ready(
        self, connection: "_ForwardedConnection", ready: pb.Ready, stream: MessageCarrier
    ) -> None:
        await connection.begin(ready, stream)


class _ForwardedConnection:
    """A connection: steps and actions go through the learner's memory, all else over `call`."""

    _stream: MessageCarrier

    def __init__(
        self,
        call: Stream,
        received: "asyncio.Queue[bytes | StreamStatus]",
        join: pb.Join,
        welcome: pb.Welcome,
        end: OnEnd,
    ):
        size = self._size = join.num_envs // join.num_groups
        self._record = record_size(welcome)
        self._link = MemoryLink(welcome.memory, sizes_of(welcome), size, join.num_groups)
        self._call, self.is_ready = call, False
        self._ending = asyncio.ensure_future(_report_end(received, end))
        self._loop = asyncio.get_running_loop()

    async def begin(self, ready: pb.Ready, stream: MessageCarrier) -> None:
        ready.shares_memory, self.is_ready, self._stream = True, True, stream
        self._loop.add_reader(self._link.fileno(), self._on_wake_up)
        self._call.say(ready=ready)

    def steps(self, steps: Iterable[Step], carrier: Carrier) -> None:
        numbers, num_groups = [], len(self._link.parts) if self.is_ready else 0
        for number, records, episodes in steps:
            check_step(number, records, episodes, num_groups, self._size, self._record)
            part = self._link.parts[number]
            part.records[:] = records
            if episodes:
                part.write_episodes(episodes)
            numbers.append(number | EPISODES if episodes else number)
        self._link.send(numbers)

    def _on_wake_up(self) -> None:
        numbers, parts = self._link.receive(), self._link.parts
        if numbers is None or END in numbers:  # The call reports why.
            self._loop.remove_reader(self._link.fileno())
        else:
            self._stream.send([(n, bytes(parts[n].actions)) for n in numbers if n < len(parts)])

    def end(self) -> None:
        self._call.close()
        self._loop.remove_reader(self._link.fileno())
        self._link.close()


async def _report_end(received: "asyncio.Queue[bytes | StreamStatus]", end: OnEnd) -> None:
    while isinstance(ended := await received.get(), bytes):
        pass
    end(Refusal(*ended[:2]))
