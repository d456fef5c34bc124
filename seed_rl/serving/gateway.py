"""A gateway: serves actors on other machines in a process of its own, and passes their steps to the board.

To the learner, each stream looks like an actor process on its machine. Hello and status are passed on, so the
learner's rules for streams are all in one place. No TensorFlow.
"""

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any

import grpc

from seed_rl.serving.refusal import RefusedError, one_message, parsed
from seed_rl.serving.seats import Seat, Seats
from seed_rl.serving.silence import Hellos, Limits, SilenceError
from seed_rl.serving.slots import Lease
from seed_rl.serving.steps import read_step
from seed_rl.wire.codec import StepCodec
from seed_rl.wire.frames import actions_frame, step_frame
from seed_rl.wire.generated import inference_pb2 as pb
from seed_rl.wire.protocol import SERVICE, sizes_of

_LEASE_SECS = 30.0

# How long the learner may take to forget a stream.
_FAREWELL_SECS = 10.0


class Gateway:
    """The service of a gateway. Belongs to one event loop."""

    def __init__(
        self,
        channel: grpc.aio.Channel,
        metadata: list[tuple[str, str]],
        description: pb.Description,
        limits: Limits = Limits(),  # noqa: B008 (immutable)
    ):
        """Prepares the service.

        Args:
          channel: to the learner.
          metadata: of each call to it.
          description: the learner's, which has a board.
          limits: of what silent peers may use.
        """
        self._channel, self._metadata, self._description = channel, metadata, description
        self._lease = channel.unary_unary(f"/{SERVICE}/LeaseTask")
        self._call = channel.stream_stream(f"/{SERVICE}/Act")
        self._hellos = Hellos(limits.hello_secs, description.num_envs + limits.spare_streams)
        spec = sizes_of(description)
        self._codec = StepCodec(spec)
        self._seats = Seats(description, spec)
        self._streams: set[asyncio.Task[Any]] = set()
        self._leaving: set[asyncio.Task[Any]] = set()

    def handlers(self) -> grpc.GenericRpcHandler:
        """The handlers for a gRPC server. Act's messages are bytes here, see `seed_rl.wire.frames`."""
        return grpc.method_handlers_generic_handler(
            SERVICE,
            {
                "Describe": one_message(self._describe, pb.DescribeRequest.FromString, self._hellos),
                "LeaseTask": one_message(self._lease_task, bytes, self._hellos),
                "Act": grpc.stream_stream_rpc_method_handler(self._act),
            },
        )

    async def close(self, grace_secs: float) -> None:
        """Gives every stream time to end on its own, so that its actor gets the reason; then ends all calls.

        Without that, the learner might not notice the end of a call: one that is cancelled while the event
        loop stops may never be reset.
        """
        if self._streams:
            await asyncio.wait(self._streams, timeout=grace_secs)
        await self._channel.close()

    async def _describe(self, request: pb.DescribeRequest) -> bytes:
        return self._description.SerializeToString()

    async def _lease_task(self, request: bytes) -> bytes:
        try:
            return await self._lease(request, timeout=_LEASE_SECS, metadata=self._metadata)
        except grpc.RpcError as error:
            raise RefusedError(error.code(), error.details() or "") from None

    async def _act(self, request_iterator: Any, context: Any) -> None:
        """Serves one environment group."""
        task = asyncio.current_task()
        assert task is not None
        self._streams.add(task)
        try:
            first = await self._hellos.first(context.read())
            message = b"" if first is grpc.aio.EOF else first
            hello = parsed(message, "hello", "The first message of a stream must be a hello.").hello
            code, details = await self._pass_on(context, hello)
        except (RefusedError, SilenceError) as refusal:
            code, details = refusal.code, str(refusal)
        finally:
            self._streams.discard(task)
        if code != grpc.StatusCode.OK:
            await context.abort(code, details)

    async def _pass_on(self, context: Any, hello: pb.Hello) -> tuple[grpc.StatusCode, str]:
        """Serves a stream that has said hello; returns the status that the learner ends it with."""
        seat: Seat | None = None
        largest = self._description.max_environments_per_message
        # A group that the learner is going to refuse needs no memory. One on this machine has its own.
        if not hello.HasField("board") and 0 < hello.num_envs <= largest:
            seat = self._seats.take(hello.num_envs)
            hello.board.CopyFrom(seat.place)
        call = self._call(metadata=self._metadata)
        try:
            await self._serve(context, call, hello, seat)
        finally:
            # In a task of its own, because this one may be cancelled before the learner answers.
            leaving = asyncio.ensure_future(self._leave(call, seat))
            self._leaving.add(leaving)
            leaving.add_done_callback(self._leaving.discard)
        return await asyncio.shield(leaving)

    async def _leave(self, call: Any, seat: Seat | None) -> tuple[grpc.StatusCode, str]:
        """Ends the call to the learner; returns its status."""
        try:
            return await asyncio.wait_for(_end(call), _FAREWELL_SECS)
        except TimeoutError:
            return grpc.StatusCode.UNAVAILABLE, "The learner does not answer; connect again."
        finally:
            call.cancel()  # Unless the learner has ended it.
            if seat is not None:
                self._seats.leave(seat)

    async def _serve(self, context: Any, call: Any, hello: pb.Hello, seat: Seat | None) -> None:
        """Says hello to the learner, and serves the stream until either end has ended."""
        with _status_says_why():
            await call.write(pb.ActRequest(hello=hello).SerializeToString())
            await call.initial_metadata()
        if call.done():
            return
        await context.send_initial_metadata(())
        if seat is None:
            await _first_to_end(_pass_messages(context, call), call.code())
        else:
            await _first_to_end(self._converse(context, call, hello, seat), _taken_over(call))

    async def _converse(self, context: Any, call: Any, hello: pb.Hello, seat: Seat) -> None:
        """Passes on steps and actions.

        If the learner ends the stream while the actor is busy, the actor's next step finds that out: gRPC
        might lose the status if the step were on its way.
        """
        part = seat.part
        lease = Lease(0, hello.run_id, hello.first_env, hello.num_envs, is_restart=False)
        steps, prefix = step_frame(len(part.records)), actions_frame(len(part.actions)).prefix
        call.add_done_callback(seat.wake)
        while (message := await context.read()) is not grpc.aio.EOF and not call.done():
            records, episodes = read_step(message, steps, self._codec, lease)
            part.records[:] = records
            if episodes:
                part.write_episodes(episodes, lease.first_env)
            await seat.ring(bool(episodes))
            if call.done():
                return
            await context.write(prefix + bytes(part.actions))


async def _first_to_end(*coroutines: Coroutine[Any, Any, Any]) -> None:
    """Waits for the first of these to end, and cancels the others.

    Raises:
      RefusedError: the first one has ended with it.
    """
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    try:
        ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in ended:
            task.result()
    finally:
        for task in tasks:
            task.cancel()


async def _pass_messages(context: Any, call: Any) -> None:
    """Passes on what comes besides the hello, for the learner to refuse."""
    with _status_says_why():
        while (message := await context.read()) is not grpc.aio.EOF:
            await call.write(message)


async def _taken_over(call: Any) -> None:
    """Waits until a newer stream of the same actor has the environments: this one's actor may be silent."""
    if await call.code() != grpc.StatusCode.ABORTED:
        await asyncio.Event().wait()


def _status_says_why() -> contextlib.AbstractContextManager[None]:
    """Around uses of a call that the learner may have ended."""
    return contextlib.suppress(grpc.RpcError, asyncio.InvalidStateError)


async def _end(call: Any) -> tuple[grpc.StatusCode, str]:
    """Says that no more comes, and returns how the learner has ended the stream."""
    with _status_says_why():
        await call.done_writing()
    return await call.code(), await call.details() or ""
