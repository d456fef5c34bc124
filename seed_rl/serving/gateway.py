"""A gateway: carries the connections of actors on other machines from gRPC to the learner's shared memory.

To the learner, each looks like an actor process on its machine. The learner decides everything: what does not
fit is passed on to it as it is. No TensorFlow.
"""

import asyncio
import contextlib
import secrets
from collections.abc import Sequence
from typing import Any

import grpc

from seed_rl.serving.connection import RefusedError, episode_problem
from seed_rl.serving.service import MessageCarrier, parsed
from seed_rl.serving.silence import FirstMessages, Limits, SilenceError
from seed_rl.wire.client import send
from seed_rl.wire.codec import ActionCodec, StepCodec
from seed_rl.wire.frames import actions_frames, step_frames
from seed_rl.wire.generated import inference_pb2 as pb
from seed_rl.wire.protocol import SERVICE, sizes_of
from seed_rl.wire.shared_memory import END, EPISODES, MOST_GROUPS, MemoryLink, NoMemoryError

_MOST_WAITING = 1_024  # Streams without a Join.

Status = tuple[grpc.StatusCode, str]


def gateway_addresses(server_address: str, num_gateways: int) -> tuple[str, ...]:
    """Where the gateways of a learner listen.

    Args:
      server_address: of the learner: unix:PATH, or HOST:PORT; the gateways have the ports that follow.
      num_gateways: how many gateways there are.

    Raises:
      ValueError: the port is not a number from 1, or there are not so many ports after it.
    """
    if server_address.startswith("unix:"):
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


class Gateway:
    """The service of a gateway. Belongs to one event loop."""

    def __init__(
        self,
        channel: grpc.aio.Channel,
        metadata: list[tuple[str, str]],
        limits: Limits = Limits(),  # noqa: B008 (immutable)
    ):
        """Prepares the service.

        Args:
          channel: to the learner.
          metadata: of each call to it.
          limits: of what silent peers may use.
        """
        self._channel, self._metadata = channel, metadata
        self._call = channel.stream_stream(f"/{SERVICE}/Connect")
        self._joins = FirstMessages(limits.join_secs, _MOST_WAITING)
        self._streams: set[asyncio.Task[Any]] = set()

    async def close(self, grace_secs: float) -> None:
        """Gives every stream time to end on its own, so that its actor gets the reason; then ends all calls.

        Without that, the learner might not notice the end of a call: one that is cancelled while the event
        loop stops may never be reset.
        """
        if self._streams:
            await asyncio.wait(self._streams, timeout=grace_secs)
        await self._channel.close()

    async def connect(self, request_iterator: Any, context: Any) -> None:
        """Serves one actor process."""
        task = asyncio.current_task()
        assert task is not None
        self._streams.add(task)
        call = None
        try:
            join = parsed(await self._joins.first(context.read()), "join")
            if join.join.num_groups > MOST_GROUPS:
                raise RefusedError(
                    grpc.StatusCode.FAILED_PRECONDITION,
                    f"A gateway carries at most {MOST_GROUPS} groups of an actor; lower --num_env_groups.",
                )
            join.join.can_share_memory = True
            call = self._call(metadata=self._metadata)
            code, details = await self._serve(context, call, join)
        except (RefusedError, SilenceError) as refusal:
            code, details = refusal.code, str(refusal)
        finally:
            self._streams.discard(task)
            if call is not None:
                call.cancel()
        if code != grpc.StatusCode.OK:
            await context.abort(code, details)

    async def _serve(self, context: Any, call: Any, join: pb.FromActor) -> Status:
        """Passes on everything; returns the status that the learner ends the connection with."""
        await send(call, join.SerializeToString())
        welcome = await _read(call)
        if welcome is grpc.aio.EOF:
            return await call.code(), await call.details() or ""
        answer = pb.FromLearner.FromString(welcome)
        if answer.welcome.address:
            await context.write(welcome)
            return grpc.StatusCode.OK, ""
        try:
            pump = _Pump(context, call, join.join, answer.welcome)
        except NoMemoryError as error:
            sentence = f"The gateway cannot share memory with the learner ({error}); connect again."
            return grpc.StatusCode.UNAVAILABLE, sentence
        reading = asyncio.ensure_future(pump.read())
        ending = asyncio.ensure_future(call.code())
        try:
            answer.welcome.ClearField("memory")
            await context.write(answer.SerializeToString())
            await asyncio.wait((reading, ending), return_when=asyncio.FIRST_COMPLETED)
            if ending.done():
                return ending.result(), await call.details() or ""
            return grpc.StatusCode.OK, ""  # The actor has gone.
        finally:
            reading.cancel()
            ending.cancel()
            pump.close()


class _Pump:
    """Carries the steps and actions of a connection."""

    def __init__(self, context: Any, call: Any, join: pb.Join, welcome: pb.Welcome):
        spec, self._size = sizes_of(welcome), join.num_envs // join.num_groups
        self._link = MemoryLink(welcome.memory, spec, self._size, join.num_groups)
        self._context, self._call = context, call
        self._num_bytes = self._size * StepCodec(spec).record_bytes
        self._steps = step_frames(join.num_groups, self._num_bytes)
        self._stream = MessageCarrier(context)
        self._stream.frames = actions_frames(
            join.num_groups, self._size * ActionCodec(spec.action).action_bytes
        )
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._link.fileno(), self._on_wake_up)

    async def read(self) -> None:
        """Passes on what the actor says, until it has gone."""
        message = await self._context.read()
        with contextlib.suppress(RefusedError):
            ready = parsed(message, "ready")
            ready.ready.shares_memory = True
            message = ready.SerializeToString()
        if message is not grpc.aio.EOF:  # The learner refuses anything but a Ready.
            await send(self._call, message)
        while (message := await self._context.read()) is not grpc.aio.EOF:
            if found := self._steps.split(message):
                self._pass_on(found)
            elif not self._take(message):
                await send(self._call, message)

    def _take(self, message: bytes) -> bool:
        """Takes steps with episodes; returns whether the message was one with steps that fit."""
        try:
            steps = parsed(message, "steps").steps
        except RefusedError:
            return False
        for step in steps:
            if step.group >= len(self._link.parts) or len(step.records) != self._num_bytes:
                return False
            if episode_problem(step.episodes, self._size):
                return False
        for step in steps:
            self._link.parts[step.group].write_episodes(step.episodes)
        self._pass_on([(step.group | EPISODES, step.records) for step in steps])
        return True

    def _pass_on(self, steps: Sequence[tuple[int, bytes | memoryview]]) -> None:
        for number, records in steps:
            self._link.parts[number & ~EPISODES].records[:] = records
        self._link.send([number for number, _ in steps])

    def _on_wake_up(self) -> None:
        numbers = self._link.receive()
        if numbers is None or END in numbers:  # The call reports why.
            self._loop.remove_reader(self._link.fileno())
            return
        parts = self._link.parts
        self._stream.send([(n, bytes(parts[n].actions)) for n in numbers if n < len(parts)])

    def close(self) -> None:
        self._loop.remove_reader(self._link.fileno())
        self._link.close()


async def _read(call: Any) -> Any:
    try:
        return await call.read()
    except grpc.RpcError:
        return grpc.aio.EOF
