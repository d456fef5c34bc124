"""gRPC listener of a learner and its event loop, in a thread of its own. No TensorFlow."""

import asyncio
import contextlib
import os
import resource
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

import grpc
from grpc._cython import cygrpc

from seed_rl.hosts.addresses import METHOD as MEET
from seed_rl.hosts.addresses import SERVICE as LEARNERS_SERVICE
from seed_rl.messages import warn
from seed_rl.serving.connection import Limits
from seed_rl.serving.sockets import SocketPath, is_socket_file
from seed_rl.wire import protocol
from seed_rl.wire.protocol import LEARNERS_MARK, channel_options
from seed_rl.wire.security import WRONG_TOKEN, Security

T = TypeVar("T")

METHOD_NOT_FOUND = "Method not found!"  # gRPC's own words.

# This needs more of grpcio than its interface; what lacks it has to do with grpc.aio's own server.
_HAS_PARTS = all(hasattr(cygrpc.AioServer, name) for name in ("_request_call", "_request_registered_call"))


class SteadyServer:
    """Makes a server of grpc.aio on the running event loop, which malformed requests cannot stop.

    grpc.aio accepts calls in one loop. It decodes the path of each call there, and ends at the first that is
    not UTF-8. From then on nothing can connect, and `wait_for_termination` does not return while streams are
    open. So every method is registered here, which lets gRPC's core compare paths as bytes, and other calls
    are refused before they get to that loop.

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
        cygrpc.AioServer = _SteadyCore if _HAS_PARTS else plain
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


class _SteadyCore(cygrpc.AioServer):
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


_GRACE_SECS = 3.0

# Time limit for a server that ended on its own to listen again, and the pause between two tries.
_AGAIN_SECS = 10.0
_RETRY_SECS = 0.05
_AS_LONG_AS_THEY_TAKE_SECS = 1e9

# The services that there may be, and the one method of each; all are streams.
_METHODS = {protocol.SERVICE: protocol.METHOD, LEARNERS_SERVICE: MEET}

# Shorter than an actor waits for an answer.
_LONGEST_WAIT_SECS = 20.0

# Reserved for files that a learner opens besides connections: checkpoints, metrics, libraries.
_SPARE_DESCRIPTORS = 64
_MOST_CONNECTIONS = 2**31 - 2  # gRPC ends the process if it is more.


class AddressError(ValueError):
    """The server cannot listen on the address; the message is a sentence for the user."""


class NotServingError(RuntimeError):
    """The server no longer accepts connections; the message is a sentence for the user."""


class Listener:
    """Listens on an address for gRPC services, which are added while it does.

    If its server ends on its own, it listens again. Streams that are open stay open.

    Attributes:
      port: the port; 0 for a unix socket.
      gateways: returns the addresses of the gateways to which actors can be sent now.
      on_refusal: called with the peer, status and sentence of each call that lacks the token.
    """

    def __init__(
        self,
        address: str,
        max_message_bytes: int,
        expected: Sequence[str],
        security: Security = Security(),  # noqa: B008 (immutable)
        limits: Limits = Limits(),  # noqa: B008 (immutable)
        also: str | None = None,
    ):
        """Starts listening.

        Args:
          address: unix:PATH or HOST:PORT (port 0 picks a free one, see `port`).
          max_message_bytes: a larger message ends its call.
          expected: names of the services that will be added. Calls that come too early end with UNAVAILABLE
            as soon as a service is added; those of other services are refused with UNIMPLEMENTED.
          security: TLS and token that callers need.
          limits: of what silent peers may use.
          also: a second address, which only this user's processes can reach, so it needs no TLS.

        Raises:
          AddressError: the server cannot listen on the address, or a learner already does.
        """
        self.port = 0
        self.gateways: Callable[[], Sequence[str]] = tuple
        self.on_refusal: Callable[[str, grpc.StatusCode, str], object] = lambda peer, code, sentence: None
        self._address, self._also, self._security = address, also, security
        self._limits, self._max_message_bytes = limits, max_message_bytes
        self._door: Any = None
        self._options = [*channel_options(max_message_bytes), *_connection_options(limits)]
        self._socket: SocketPath | None = None
        self._expected = expected
        self._answers: dict[str, Callable[[Any, Any], Awaitable[None]]] = {}  # By service.
        self._has_changed = asyncio.Event()  # Replaced after each service that is added.
        self._retired: list[grpc.aio.Server] = []  # Have ended, but streams may still be open there.
        self._problem = ""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="inference-server", daemon=True)
        self._thread.start()
        try:
            if is_socket_file(address):
                self._socket = SocketPath(address)
            self._steady = self.run(self._start())
        except (RuntimeError, OSError) as error:
            self._release()
            raise AddressError(f"Cannot listen on --server_address={address}: {error}.") from error
        self._watching = asyncio.run_coroutine_threadsafe(self._watch(), self._loop)

    async def _start(self) -> SteadyServer:
        steady = SteadyServer(self._methods(), self._options)
        server, credentials = steady.server, self._security.server_credentials()
        place = self._socket.grpc_address if self._socket else self._place()
        if credentials is None:
            self.port = server.add_insecure_port(place)
        else:
            self.port = server.add_secure_port(place, credentials)
        if self._also is not None:
            server.add_insecure_port(self._also)
        await server.start()
        try:
            if self._socket:
                self._socket.publish()
        except OSError:  # The server before has removed the socket at its path, where this one's was.
            await server.stop(None)
            raise
        return steady

    def _place(self) -> str:
        """The address with the port that it has got, so that it keeps it."""
        if self._address.startswith("unix") or not self.port:
            return self._address
        return f"{self._address.rpartition(':')[0]}:{self.port}"

    async def _watch(self) -> None:
        """Listens again whenever the server has ended."""
        while True:
            reason = await asyncio.shield(self._steady.ended)
            old = self._steady.server
            self._retired.append(old)
            stopping = asyncio.ensure_future(old.stop(_AS_LONG_AS_THEY_TAKE_SECS))
            stopping.add_done_callback(lambda _, old=old: self._retired.remove(old))
            try:
                self._steady = await self._start_again()
            except (RuntimeError, OSError) as error:
                self._problem = (
                    f"The server ended ({reason!r}) and cannot listen on {self._place()} again: {error}."
                )
                return
            warn(f"the server ended ({reason!r}) and listens again; connected actors play on.")

    async def _start_again(self) -> SteadyServer:
        """Starts as soon as the server before has closed its socket."""
        deadline = self._loop.time() + _AGAIN_SECS
        while True:
            try:
                return await self._start()
            except (RuntimeError, OSError):
                if self._loop.time() > deadline:
                    raise
            await asyncio.sleep(_RETRY_SECS)

    def add(self, service: str, answer: Callable[[Any, Any], Awaitable[None]]) -> None:
        """Answers the calls of a service from now on; may be called from any thread but the event loop's.

        Args:
          service: its name.
          answer: called with the requests and gRPC's context of each call. Messages are bytes.
        """

        async def on_loop() -> None:
            self._answers[service] = answer
            changed, self._has_changed = self._has_changed, asyncio.Event()
            changed.set()

        self.run(on_loop())

    def open_web(self, address: str, origins: tuple[str, ...] = (), page: bytes | None = None) -> int:
        """Lets browsers call the services as well; returns the port.

        Args:
          address: HOST:PORT.
          origins: of pages elsewhere that may connect.
          page: the live page; None: there is none.

        Raises:
          AddressError: nothing can listen on the address.
          ImportError: the extra [web] is not installed.
        """
        from seed_rl.serving.web import Door

        async def answer(service: str, context: Any) -> None:
            await self._answer(service, None, context)

        rules = self._security, self._limits, self._max_message_bytes, origins, page, most_connections()
        self._door = Door(address, answer, *rules)
        try:
            self.run(self._door.open())
        except OSError as error:
            raise AddressError(f"Cannot listen on --web_address={address}: {error}.") from error
        return int(self._door.port)

    def _methods(self) -> dict[str, dict[str, grpc.RpcMethodHandler]]:
        """A handler for each method that there may be, by service."""

        def handler(service: str) -> grpc.RpcMethodHandler:
            async def answer(requests: Any, context: Any) -> None:
                await self._answer(service, requests, context)

            return grpc.stream_stream_rpc_method_handler(answer)

        return {service: {method: handler(service)} for service, method in _METHODS.items()}

    async def _answer(self, service: str, requests: Any, context: Any) -> None:
        """Answers a call, or refuses it.

        One that comes too early is kept waiting, because its caller waits longer after each refusal.
        """
        if not self._security.accepts(context.invocation_metadata()):
            context.set_trailing_metadata([LEARNERS_MARK])
            self.on_refusal(context.peer(), grpc.StatusCode.UNAUTHENTICATED, WRONG_TOKEN)
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, WRONG_TOKEN)
        if answer := self._answers.get(service):
            await answer(requests, context)
        elif service in self._expected:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._has_changed.wait(), _LONGEST_WAIT_SECS)
            await context.abort(grpc.StatusCode.UNAVAILABLE, "The learner is starting; connect again.")
        else:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, METHOD_NOT_FOUND)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine on the event loop, and waits for its result."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def call_soon(self, function: Callable[..., object], *arguments: Any) -> None:
        """Calls a function on the event loop; may be called from any thread."""
        self._loop.call_soon_threadsafe(function, *arguments)

    @property
    def is_open(self) -> bool:
        """Whether it still listens."""
        return not self._loop.is_closed()

    def check(self) -> None:
        """Raises NotServingError if the server has ended and cannot listen again."""
        if self._problem:
            raise NotServingError(self._problem)

    def stop(self) -> None:
        """Ends every call and stops listening; a second call does nothing."""
        if not self.is_open:
            return
        self.run(self._end())
        self._release()

    async def _end(self) -> None:
        self._watching.cancel()
        if self._door:
            await self._door.close()
        servers = [self._steady.server, *self._retired]
        await asyncio.gather(*(server.stop(_GRACE_SECS) for server in servers))
        # Calls that wait, other jobs on this loop, and what these start when they are cancelled.
        while left := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)

    def _release(self) -> None:
        if self._socket:
            self._socket.release()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def _connection_options(limits: Limits) -> list[tuple[str, int]]:
    """The gRPC options that keep silent peers from using up the process's file descriptors."""
    options = [
        ("grpc.so_reuseport", 0),
        ("grpc.server_handshake_timeout_ms", int(1e3 * limits.handshake_secs)),
        # A connection with an open stream is not idle.
        ("grpc.max_connection_idle_ms", int(1e3 * limits.idle_secs)),
    ]
    options.append(("grpc.max_allowed_incoming_connections", most_connections()))
    return options


def most_connections() -> int:
    """Number of connections that the limit on file descriptors allows; gRPC closes others at once."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return _MOST_CONNECTIONS
    free = soft - len(os.listdir("/dev/fd")) - _SPARE_DESCRIPTORS
    return max(1, min(free // 2, _MOST_CONNECTIONS))  # The other half is for shared memory.
