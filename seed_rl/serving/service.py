"""The gRPC service: who may connect, and the exchange with each environment group. No TensorFlow.

Runs on one asyncio event loop. A stream needs no thread, so hundreds of actors can be connected.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

import grpc

from seed_rl.serving.batcher import Batcher
from seed_rl.serving.board import Board
from seed_rl.serving.hello import check_hello
from seed_rl.serving.refusal import RefusedError, one_message
from seed_rl.serving.request import Answer, BadStep, Request
from seed_rl.serving.silence import Hellos, Limits, SilenceError
from seed_rl.serving.slots import Lease, SlotRefusedError, Slots
from seed_rl.serving.steps import read_step, require_reset
from seed_rl.wire.codec import ActionCodec, StepCodec
from seed_rl.wire.frames import actions_frame, step_frame
from seed_rl.wire.gateways import as_leased
from seed_rl.wire.generated import inference_pb2 as pb
from seed_rl.wire.protocol import (
    PROTOCOL_VERSION,
    SERVICE,
    EnvironmentDescription,
    max_message_bytes,
)


class _Client(NamedTuple):
    """A stream as a client of the batcher of its environments."""

    batcher: Batcher[Request]
    number: int


class InferenceService:
    """Describe, LeaseTask and Act, as protos/inference.proto defines them."""

    def __init__(
        self,
        environment: EnvironmentDescription,
        num_envs: int,
        max_envs_per_message: int,
        batchers: Sequence[Batcher[Request]],
        on_lease: Callable[[Lease], None],
        on_episodes: Callable[[list[pb.Episode]], None],
        num_eval_envs: int = 0,
        limits: Limits = Limits(),  # noqa: B008 (immutable)
        served: range | None = None,
    ):
        """Prepares the service.

        Args:
          environment: the environments that actors must have.
          num_envs: environments of the run.
          max_envs_per_message: largest environment group.
          batchers: where steps go, one for each part of the environments.
          on_lease: called (on the event loop) for each accepted stream.
          on_episodes: called with the episodes that actors report.
          num_eval_envs: how many environments, the last ones, only evaluate.
          limits: of what silent peers may use.
          served: ids of the environments that are served here, if there are several learner hosts; None: all.
        """
        self._takeover_secs = limits.takeover_secs
        self.hellos = Hellos(limits.hello_secs, num_envs + limits.spare_streams)
        self._codec = StepCodec(environment.spec)
        self._batchers, self._served = batchers, range(num_envs) if served is None else served
        self._on_lease, self._on_episodes = on_lease, on_episodes
        self.slots = Slots(num_envs, num_eval_envs, served)
        # Answers LeaseTask; raises SlotRefusedError or RefusedError.
        self.lease: Callable[[pb.LeaseRequest], Awaitable[pb.TaskLease]] = self._lease_here
        self.gateways: Sequence[str] = ()  # Where actors are sent that may have any task.
        self._streams: dict[int, asyncio.Task[Any]] = {}  # By lease key.
        self._slot_freed = asyncio.Event()  # Set, and replaced, whenever a stream ends.
        self._ended: str | None = None  # "": training is complete; else why the learner stops.
        # The answer that each stream waits for, or waited for last, by lease key; None: training has ended.
        self._answers: dict[int, asyncio.Future[Answer | RefusedError | None]] = {}
        self._board: Board | None = None
        self._description = pb.Description(
            protocol_version=PROTOCOL_VERSION,
            num_envs=num_envs,
            num_action_repeats=environment.spec.num_action_repeats,
            max_environments_per_message=max_envs_per_message,
            max_message_bytes=max_message_bytes(self._codec.record_bytes, max_envs_per_message),
        )
        environment.describe_into(self._description)
        self._action_bytes = ActionCodec(environment.spec.action).action_bytes

    def handlers(self) -> grpc.GenericRpcHandler:
        """The handlers for a gRPC server. Act's messages are bytes here, see `seed_rl.wire.frames`."""
        return grpc.method_handlers_generic_handler(
            SERVICE,
            {
                "Describe": one_message(self._describe, pb.DescribeRequest.FromString, self.hellos),
                "LeaseTask": one_message(self._lease_task, pb.LeaseRequest.FromString, self.hellos),
                "Act": grpc.stream_stream_rpc_method_handler(self._act),
            },
        )

    @property
    def max_message_bytes(self) -> int:
        """Largest message that the server must accept."""
        return self._description.max_message_bytes

    async def _describe(self, request: pb.DescribeRequest) -> bytes:
        """The environments that the learner expects."""
        return self._description.SerializeToString()

    async def _lease_task(self, request: pb.LeaseRequest) -> bytes:
        """A task for an actor that accepts any."""
        return (await self.lease(request)).SerializeToString()

    async def _lease_here(self, request: pb.LeaseRequest) -> pb.TaskLease:
        """A task whose environments are served here."""
        task, must_restart = self.slots.lease_task(
            request.run_id, request.num_envs, request.task, time.monotonic()
        )
        address = as_leased(self.gateways[task % len(self.gateways)]) if self.gateways else ""
        return pb.TaskLease(task=task, must_restart=must_restart, address=address)

    async def _act(self, request_iterator: Any, context: Any) -> None:
        """Serves one environment group."""
        lease: Lease | None = None
        client: _Client | None = None
        try:
            hello = check_hello(await self.hellos.first(context.read()), self._description)
            lease = await self._claim(hello)
            place = (lease.first_env - self._served.start) * len(self._batchers) // len(self._served)
            batcher = self._batchers[place]
            client = _Client(batcher, batcher.connect())
            if hello.HasField("board"):
                await self._watch(context, lease, client, hello.board)
            else:
                await self._accept(context, lease)
                await self._converse(context, lease, client)
        except (RefusedError, SilenceError) as refusal:
            await context.abort(refusal.code, str(refusal))
        except asyncio.CancelledError:
            if lease is None or lease.key in self._streams:
                raise  # The client has gone.
            self._leave(lease, client)  # First, since the newer stream waits for it.
            await context.abort(grpc.StatusCode.ABORTED, "A newer stream of this actor has taken over.")
        finally:
            self._leave(lease, client)

    def deliver(self, answers: list[tuple[Request, Answer]]) -> None:
        """Sends answers to requests; must run on the event loop."""
        for request, answer in answers:
            waiting = self._answers.get(request.lease.key)
            if waiting is not None and not waiting.done():
                waiting.set_result(answer)

    def open_board(self, board: Board, description: pb.Board) -> None:
        """Offers actors a board; must run on the event loop."""
        self._board = board
        self._description.board.CopyFrom(description)

    def refuse(self, lease: Lease, refusal: RefusedError) -> None:
        """Ends a stream on the board; must run on the event loop."""
        waiting = self._answers.get(lease.key)
        if waiting is not None and not waiting.done():
            waiting.set_result(refusal)

    def end(self, reason: str) -> None:
        """Ends all streams; must run on the event loop.

        Args:
          reason: empty if training is complete (actors exit); otherwise why the learner stops for now.
        """
        self._ended = reason
        for answer in self._answers.values():
            if not answer.done():
                answer.set_result(None)

    async def wait_until_left(self, timeout_secs: float) -> None:
        """Waits for every stream to end on its own, so that its actor gets the reason."""
        if self._streams:
            await asyncio.wait(self._streams.values(), timeout=timeout_secs)

    async def _accept(self, context: Any, lease: Lease) -> None:
        """Tells an actor that its hello is accepted."""
        await context.send_initial_metadata(())
        self._on_lease(lease)

    async def _watch(self, context: Any, lease: Lease, client: _Client, part: pb.BoardPart) -> None:
        """Waits for the end of a stream whose steps go through the board."""
        if self._board is None:
            raise RefusedError(grpc.StatusCode.UNAVAILABLE, "The learner has no board; connect again.")
        ending = self._answers[lease.key] = asyncio.get_running_loop().create_future()
        if self._ended is not None:
            ending.set_result(None)
        self._board.attach(lease, client.batcher, client.number, part)
        reading: asyncio.Future[Any] | None = None
        try:
            await self._accept(context, lease)
            reading = asyncio.ensure_future(context.read())
            await asyncio.wait((reading, ending), return_when=asyncio.FIRST_COMPLETED)
            if ending.done():
                self._checked(await ending)
                self._check_end()
            elif await reading is not grpc.aio.EOF:
                raise RefusedError(
                    grpc.StatusCode.INVALID_ARGUMENT, "After the hello, steps of this stream go to the board."
                )
        finally:
            ending.cancel()
            if reading is not None:
                reading.cancel()
            self._board.detach(lease)

    @staticmethod
    def _checked(answer: Answer | RefusedError | None) -> bytes | None:
        """The actions for a step, or the end of its stream if the step must not reach the learner."""
        if isinstance(answer, RefusedError):
            raise answer
        if isinstance(answer, BadStep):
            raise RefusedError(grpc.StatusCode.INVALID_ARGUMENT, answer.sentence)
        return answer

    def _check_end(self) -> None:
        """Ends a stream because the learner stops, unless training is complete."""
        if self._ended:
            raise RefusedError(grpc.StatusCode.UNAVAILABLE, self._ended)

    async def _converse(self, context: Any, lease: Lease, client: _Client) -> None:
        is_first = True
        loop = asyncio.get_running_loop()
        steps = step_frame(lease.num_envs * self._codec.record_bytes)
        actions_prefix = actions_frame(lease.num_envs * self._action_bytes).prefix
        while True:
            message = await context.read()
            if message is grpc.aio.EOF:
                return
            records, episodes = read_step(message, steps, self._codec, lease)
            if is_first:
                require_reset(records, self._codec.record, lease)
            if self._ended is None:
                waiting = self._answers[lease.key] = loop.create_future()
                request = Request(lease, records, time.monotonic())
                client.batcher.submit(client.number, request, lease.num_envs)
                answer = self._checked(await waiting)
                if episodes:
                    self._on_episodes(episodes)
                if answer is not None:
                    await context.write(actions_prefix + answer)
                    is_first = False
                    continue
            return self._check_end()

    async def _claim(self, hello: pb.Hello) -> Lease:
        """Leases environments. Ends older streams of the same actor; another actor gets a moment to leave."""
        deadline = time.monotonic() + self._takeover_secs
        while holders := self.slots.holders(hello.first_env, hello.num_envs):
            for holder in holders:
                if holder.actor_id == hello.run_id and (stream := self._streams.pop(holder.key, None)):
                    stream.cancel()
            patience = deadline - time.monotonic()
            if patience <= 0:
                break
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._slot_freed.wait(), patience)
        try:
            lease = self.slots.claim(hello.run_id, hello.task, hello.first_env, hello.num_envs)
        except SlotRefusedError as error:
            codes = (grpc.StatusCode.ALREADY_EXISTS, grpc.StatusCode.OUT_OF_RANGE)
            raise RefusedError(codes[error.out_of_range], str(error)) from None
        task = asyncio.current_task()
        assert task is not None
        self._streams[lease.key] = task
        return lease

    def _leave(self, lease: Lease | None, client: _Client | None) -> None:
        """Forgets a stream; a second call does nothing. Awaits nothing, because its task may be cancelled."""
        if client is not None:
            client.batcher.disconnect(client.number)
        if lease is None:
            return
        self.slots.release(lease)
        self._answers.pop(lease.key, None)
        self._streams.pop(lease.key, None)
        freed, self._slot_freed = self._slot_freed, asyncio.Event()
        freed.set()
