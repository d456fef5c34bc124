"""A gateway: carries the connections of actors on other machines from gRPC to the learner's shared memory.

To the learner, each looks like an actor process on its machine. No TensorFlow.
"""

import asyncio
import contextlib
import functools
import secrets
from collections.abc import Iterable
from typing import Any

import grpc
from grpc._cython import cygrpc

from seed_rl.serving.connection import Carrier, OnEnd, RefusedError, Step
from seed_rl.serving.service import InferenceService, MessageCarrier
from seed_rl.serving.silence import Limits
from seed_rl.wire.generated import inference_pb2 as pb
from seed_rl.wire.protocol import SERVICE, channel_options, sizes_of
from seed_rl.wire.shared_memory import END, EPISODES, MOST_GROUPS, MemoryLink, NoMemoryError

_MOST_WAITING = 1_024  # Streams without a Join.


def gateway_addresses(server_address: str, num_gateways: int) -> tuple[str, ...]:
    """Where a learner's gateways listen: beside its unix:PATH, or on the ports after that of its HOST:PORT.

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
    """Where a learner listens for its gateways alone; nobody reaches it who could not reach the learner."""
    if server_address.startswith("unix:"):
        return f"{server_address}.learner"
    return f"unix-abstract:seed_rl/{secrets.token_hex(16)}"


class Gateway(InferenceService):
    """The service of a gateway to the learner at an address, which wants this metadata with each call."""

    def __init__(self, learner_address: str, metadata: list[tuple[str, str]], limits: Limits = Limits()):  # noqa: B008
        super().__init__(limits.join_secs, _MOST_WAITING)
        self._address, self._metadata = learner_address, metadata

    @functools.cached_property
    def _call(self) -> Any:
        """Made on the event loop."""
        channel = grpc.aio.insecure_channel(
            self._address, channel_options(-1), grpc.Compression.NoCompression
        )
        return channel.stream_stream(f"/{SERVICE}/Connect")

    async def _join(self, join: pb.Join, context: Any, end: OnEnd) -> tuple["_Connection | None", pb.Welcome]:
        if join.num_groups > MOST_GROUPS:
            raise RefusedError(
                grpc.StatusCode.FAILED_PRECONDITION,
                f"A gateway carries at most {MOST_GROUPS} groups of an actor; lower --num_env_groups.",
            )
        join.can_share_memory = True
        call = self._call(metadata=self._metadata)
        with contextlib.ExitStack() as at_failure:
            at_failure.callback(call.cancel)
            await _send(call, pb.FromActor(join=join).SerializeToString())
            message = await _read(call)
            if message is grpc.aio.EOF:
                await _report_end(call, end)
                return None, pb.Welcome()
            welcome = pb.FromLearner.FromString(message).welcome
            if welcome.address:
                return None, welcome
            try:
                connection = _Connection(call, join, welcome, end)
            except NoMemoryError as error:
                sentence = f"The gateway cannot share memory with the learner ({error}); connect again."
                raise RefusedError(grpc.StatusCode.UNAVAILABLE, sentence) from None
            at_failure.pop_all()
        welcome.ClearField("memory")
        return connection, welcome

    async def _ready(self, connection: "_Connection", ready: pb.Ready, stream: MessageCarrier) -> None:
        await connection.begin(ready, stream)


class _Connection:
    """A connection: steps and actions go through the learner's memory, all else over `call`."""

    _stream: MessageCarrier

    def __init__(self, call: Any, join: pb.Join, welcome: pb.Welcome, end: OnEnd):
        size = join.num_envs // join.num_groups
        self._link = MemoryLink(welcome.memory, sizes_of(welcome), size, join.num_groups)
        self._call, self.is_ready = call, False
        self._ending = asyncio.ensure_future(_report_end(call, end))
        self._loop = asyncio.get_running_loop()

    async def begin(self, ready: pb.Ready, stream: MessageCarrier) -> None:
        ready.shares_memory, self.is_ready, self._stream = True, True, stream
        self._loop.add_reader(self._link.fileno(), self._on_wake_up)
        await _send(self._call, pb.FromActor(ready=ready).SerializeToString())

    def steps(self, steps: Iterable[Step], carrier: Carrier) -> None:
        numbers = []
        for number, records, episodes in steps:
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
        self._call.cancel()
        self._loop.remove_reader(self._link.fileno())
        self._link.close()


async def _report_end(call: Any, end: OnEnd) -> None:
    end(RefusedError(await call.code(), await call.details() or ""))


async def _send(call: Any, message: bytes) -> None:
    """Sends bytes; never fails, because the call's status says whatever is wrong.

    If the other end has ended the call, `call.write` would set that status to INTERNAL: the real one, which
    says why, would be lost.
    """
    with contextlib.suppress(cygrpc.BaseError, asyncio.InvalidStateError):
        await call._metadata_sent.wait()
        if not call.done():
            await call._cython_call.send_serialized_message(message)


async def _read(call: Any) -> Any:
    """The next message of a call as bytes, or EOF; never fails, because the call's status says why."""
    try:
        return await call.read()
    except grpc.RpcError:
        return grpc.aio.EOF
