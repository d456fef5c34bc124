"""gRPC server that malformed requests cannot stop, and that reports other ends. No TensorFlow.

grpc.aio accepts calls in one loop. It decodes the path of each call there, and ends at the first that is not
UTF-8. From then on nothing can connect, and `wait_for_termination` does not return while streams are open. So
every method is registered here, which lets gRPC's core compare paths as bytes, and other calls are refused
before they get to that loop.
"""

import asyncio
import contextlib
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

import grpc
from grpc._cython import cygrpc

from seed_rl.messages import warn

T = TypeVar("T")

METHOD_NOT_FOUND = "Method not found!"  # gRPC's own words.

# This needs more of grpcio than its interface; what lacks it has to do with grpc.aio's own server.
_HAS_PARTS = all(hasattr(cygrpc.AioServer, name) for name in ("_request_call", "_request_registered_call"))


class SteadyServer:
    """Makes a server of grpc.aio on the running event loop.

    Attributes:
      server: the server, which is not started.
      ended: done when the server no longer accepts calls; the result is the error that was the reason.
    """

    def __init__(
        self,
        methods: Mapping[str, Mapping[str, grpc.RpcMethodHandler]],
        options: list[tuple[str, Any]],
    ):
        """Makes it.

        Args:
          methods: handlers by service and method.
          options: gRPC's.
        """
        if not _HAS_PARTS:
            warn(
                f"grpcio {grpc.__version__} is not known here: a request can make it stop accepting "
                "actors, and nothing says so; install grpcio 1.85."
            )
        plain = cygrpc.AioServer
        cygrpc.AioServer = _Core if _HAS_PARTS else plain
        try:
            self.server = grpc.aio.server(options=options)
        finally:
            cygrpc.AioServer = plain
        self.ended: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()
        if _HAS_PARTS:
            self.server._server.ended = self.ended
        for service, handlers in methods.items():
            if _HAS_PARTS:
                self.server.add_registered_method_handlers(service, dict(handlers))
            else:
                handler = grpc.method_handlers_generic_handler(service, handlers)
                self.server.add_generic_rpc_handlers((handler,))


class _Core(cygrpc.AioServer):
    """Core of grpc.aio's server. `ended` is that of `SteadyServer`."""

    ended: "asyncio.Future[BaseException | None]"

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        self.jobs: set[asyncio.Task[Any]] = set()  # The event loop itself does not keep them alive.

    async def _server_main_loop(self, started: Any) -> None:
        reason: BaseException | None = None
        try:
            await super()._server_main_loop(started)
        except (Exception, asyncio.CancelledError) as error:  # grpc.aio would not stop after it.
            reason = error
        finally:
            self.ended.set_result(reason)

    async def _request_registered_call(self, method: bytes) -> Any:
        return await self._kept(super()._request_registered_call(method))

    async def _request_call(self) -> None:
        """Refuses the calls of methods that are not registered; returns only with an error."""
        while True:
            call = await self._kept(super()._request_call())
            self._keep(_refuse(call))

    async def _kept(self, request: Coroutine[Any, Any, Any]) -> Any:
        """The result of a request for a call, which nothing may cancel.

        gRPC's core writes the call into memory that the request owns. The loop cancels its requests when it
        ends with an error, and the core writes there all the same when the server stops.
        """
        return await asyncio.shield(self._keep(request))

    def _keep(self, job: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        task = asyncio.ensure_future(job)
        self.jobs.add(task)
        task.add_done_callback(self._forget)
        return task

    def _forget(self, task: "asyncio.Task[Any]") -> None:
        self.jobs.discard(task)
        if not task.cancelled():
            task.exception()  # Whatever waits for it has it as well.


async def _refuse(call: Any) -> None:
    context = cygrpc._ServicerContext(call, None, None, asyncio.get_running_loop())
    with contextlib.suppress(cygrpc.BaseError):  # `abort` raises one in any case.
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, METHOD_NOT_FOUND)
