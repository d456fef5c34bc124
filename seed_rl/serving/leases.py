"""Tasks for actors on several learner hosts: whichever host is asked, the one with most room answers."""

import asyncio
import time

import grpc

from seed_rl.serving.refusal import RefusedError, one_message
from seed_rl.serving.service import InferenceService
from seed_rl.serving.slots import SlotRefusedError
from seed_rl.wire.gateways import resolved
from seed_rl.wire.generated import inference_pb2 as pb
from seed_rl.wire.hosts import SERVICE, LearnerHosts
from seed_rl.wire.protocol import channel_options
from seed_rl.wire.security import Security

_CALL_SECS = 10.0


class LeaseDesk:
    """Answers LeaseTask for all learner hosts. Belongs to the event loop of this host's listener."""

    def __init__(self, hosts: LearnerHosts, service: InferenceService, num_envs: int, security: Security):
        """Prepares.

        Args:
          hosts: all learner hosts; this one is `service`'s.
          service: gives away the environments that are served here.
          num_envs: environments of the run.
          security: as hosts need it to call each other.
        """
        self._hosts, self._service, self._num_envs, self._security = hosts, service, num_envs, security
        self._lease_here = service.lease
        self._channels: dict[int, grpc.aio.Channel] = {}

    def handlers(self) -> grpc.GenericRpcHandler:
        """What the other hosts call: how many environments are taken here, and a task of this host."""
        return grpc.method_handlers_generic_handler(
            SERVICE,
            {
                "Taken": one_message(self._taken_here, bytes, self._service.hellos),
                "Lease": one_message(self._lease_for_other, pb.LeaseRequest.FromString, self._service.hellos),
            },
        )

    async def lease(self, request: pb.LeaseRequest) -> pb.TaskLease:
        """A task of the host that has most room, or of the one whose task the actor had before.

        Raises:
          SlotRefusedError: no host has a task of this size.
          RefusedError: a host is not ready yet, or cannot be asked.
        """
        taken = await asyncio.gather(*(self._taken(index) for index in range(self._hosts.count)))
        first_env = request.task * request.num_envs
        is_own = [request.task >= 0 and first_env in self._served(i) for i in range(self._hosts.count)]
        refusal: SlotRefusedError | None = None
        for index in sorted(range(self._hosts.count), key=lambda i: (not is_own[i], taken[i], i)):
            try:
                return await self._lease_at(index, request)
            except SlotRefusedError as error:
                refusal = error
        assert refusal is not None
        if refusal.out_of_range:
            raise refusal
        raise SlotRefusedError(
            f"All {self._num_envs} environments of the {self._hosts.count} learner hosts are taken by other "
            "actors; start fewer of them or raise the learners' --num_envs.",
            out_of_range=False,
        )

    def _served(self, index: int) -> range:
        return self._hosts.served(self._num_envs, index)

    async def _taken(self, index: int) -> int:
        if index == self._hosts.index:
            return self._service.slots.taken(time.monotonic())
        return int(await self._call(index, "Taken", b""))

    async def _lease_at(self, index: int, request: pb.LeaseRequest) -> pb.TaskLease:
        if index == self._hosts.index:
            return await self._lease_here(request)
        data = await self._call(index, "Lease", request.SerializeToString())
        lease = pb.TaskLease.FromString(data)
        host = self._hosts.addresses[index]
        lease.address = resolved(lease.address, host) or host
        return lease

    async def _call(self, index: int, method: str, data: bytes) -> bytes:
        """Calls another host; the channel to it stays open."""
        if index not in self._channels:
            self._channels[index] = self._security.channel(self._hosts.addresses[index], channel_options(-1))
        call = self._channels[index].unary_unary(f"/{SERVICE}/{method}")
        try:
            return await call(data, timeout=_CALL_SECS, metadata=self._security.metadata())
        except grpc.RpcError as error:
            if error.code() in (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.OUT_OF_RANGE):
                is_size = error.code() == grpc.StatusCode.OUT_OF_RANGE
                raise SlotRefusedError(error.details() or "", out_of_range=is_size) from None
            raise RefusedError(
                grpc.StatusCode.UNAVAILABLE,
                f"{self._hosts.name(index)} does not answer yet ({error.details()}); connect again.",
            ) from None

    async def _taken_here(self, request: bytes) -> bytes:
        return str(self._service.slots.taken(time.monotonic())).encode()

    async def _lease_for_other(self, request: pb.LeaseRequest) -> bytes:
        return (await self._lease_here(request)).SerializeToString()
