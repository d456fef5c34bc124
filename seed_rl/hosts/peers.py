"""Connections of a learner host to the other hosts of its run. No TensorFlow.

The launcher fixes the addresses of the hosts (`hosts.addresses`). Each of the others opens a stream to the
first host, over which both send the same kind of message in turns, a JSON object, at least once a second:

1. A host joins with its index, its settings and versions, and the address that it holds for TensorFlow. The
   first host refuses it if they differ from its own.
2. When all have joined, the first host's messages contain the addresses, which every host tries. When all are
   ready, TensorFlow starts.
3. From then on a message is also a heartbeat. It has the number of updates that the host has joined and its
   waiting time in the last one, and brings metrics to the first host.
4. A host that ends sends `left` with the reason, or an empty one if all have agreed to end.

Any loss or failure is one sentence, which the first host passes on to all. All hosts end with it.
"""

import asyncio
import contextlib
import json
import os
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Any

import grpc

from seed_rl.files import parse_json
from seed_rl.hosts.addresses import METHOD, SERVICE, LearnerHosts, listen, unreached
from seed_rl.messages import one_line, reason
from seed_rl.serving.listener import Listener
from seed_rl.wire.protocol import channel_options
from seed_rl.wire.ranges import RANGES, problem
from seed_rl.wire.security import Security
from seed_rl.wire.tls import why_unusable

_LONGEST_BEAT_SECS, _JOINING_BEAT_SECS = 1.0, 0.1
_LAST_RESORT_SECS = 15.0  # See `watch`.
_LEAVE_SECS = 10.0
_POLL_SECS = 0.1


class HostsDisagreeError(ValueError):
    """The learner hosts cannot start together; the message is one sentence."""


class HostLostError(RuntimeError):
    """A learner host is lost, has failed, or does not take part; the message names it."""


class Peers:
    """The other learner hosts. The main thread calls the methods; everything else is on the listener's loop.

    Attributes:
      problem: why the hosts must all end; empty as long as all is well.
      take_report: returns what a host other than the first reports with its next message, a JSON object.
      on_report: called with a host's index and what it reported, on the first host; neither may block.
      stderr: file descriptor for the last message of this process, open until it has left.
    """

    def __init__(
        self,
        hosts: LearnerHosts,
        listener: Listener,
        timeout_secs: float,
        identity: Mapping[str, Any],
        security: Security = Security(),  # noqa: B008 (immutable)
    ):
        """Prepares; the first host can be called from now on. `meet` begins.

        Args:
          hosts: all of them, and which one this is.
          listener: its loop is used; the first host is called there.
          timeout_secs: how long a host may be silent, or wait for the others.
          identity: settings and versions that all hosts must share, JSON values by name.
          security: what a host needs to call the first one.
        """
        self.problem = ""
        self.take_report: Callable[[], dict[str, Any]] = dict
        self.on_report: Callable[[int, dict[str, Any]], None] = lambda index, report: None
        self._hosts, self._listener, self._timeout_secs = hosts, listener, timeout_secs
        self._security = security.between_learners()
        self._identity = json.loads(json.dumps({**identity, "learner_hosts": hosts.addresses}))
        self._beat_secs = min(_LONGEST_BEAT_SECS, timeout_secs / 10)
        self.stderr = os.dup(2)  # The other one may be redirected by then.
        self._changed = threading.Condition()
        self._on_problem: Callable[[str], object] = lambda sentence: None
        self._calling: asyncio.Task[None] | None = None
        self._joined, self._since = 0, 0.0  # Updates, and when the last one began; 0.0 if it is over.
        self._left: str | None = None
        self._hurry, self._first_has_left, self._has_finished = asyncio.Event(), False, False
        self._open: dict[int, dict[str, Any]] = {}  # The last message of each host with an open stream.
        self._held = listen(hosts.machine())
        self._address = f"{hosts.machine()}:{self._held.getsockname()[1]}"  # Of TensorFlow on this host.
        self._addresses: list[str] = []  # Empty until all have joined.
        self._is_ready = False  # Has reached the addresses; on the first host, all have.
        if hosts.is_first:
            listener.add(SERVICE, self._serve)

    def meet(self, stopping: Callable[[], bool]) -> list[str]:
        """Waits until all hosts are there.

        Returns:
          HOST:PORT of each host for TensorFlow, all of which are free; empty if `stopping` returned true.

        Raises:
          HostsDisagreeError: a host does not come or has other settings.
        """
        first, patience = self._hosts.is_first, self._timeout_secs
        if not first:
            self._listener.call_soon(self._start_calling)
            patience *= 2  # The last host may come late.
        self._wait_for(lambda: bool(self._addresses or self.problem), patience, stopping)
        if not self._addresses:
            if stopping() and not self.problem:
                return []
            self._miss([i for i in range(1, self._hosts.count) if i not in self._open] if first else [0])
        if not self.problem:
            self._fail(unreached(self._hosts, self._addresses, self._timeout_secs))
        self._is_ready = not first
        self._wait_for(lambda: self._all_ready() or bool(self.problem), patience, stopping)
        self._is_ready = self._all_ready()
        if not self._is_ready:
            if stopping():
                return []
            self._fail(f"The learner hosts did not reach one another within {patience:g} s.")
        if self.problem:
            raise HostsDisagreeError(self.problem)
        self._held.close()
        return self._addresses

    def _all_ready(self) -> bool:
        return bool(self._open) and all(message.get("ready") for message in self._open.values())

    def leave(self, reason: str = "") -> None:
        """Notifies the others that this host ends; a second call does nothing.

        Args:
          reason: a sentence if it fails, after which all end; empty if all have agreed to end. Then the first
            host leaves first: it saves the run.
        """
        if self._left is not None:
            return
        if not reason and not self._hosts.is_first:
            self._wait_for(
                lambda: self._first_has_left or bool(self.problem) or not self._open, self._timeout_secs
            )
        self._left = reason
        self._listener.call_soon(self._hurry.set)
        self._wait_for(lambda: not self._open, _LEAVE_SECS)
        if self._calling:
            self._listener.call_soon(self._calling.cancel)
        self._held.close()
        os.close(self.stderr)

    def finish(self) -> None:
        """Sends the last report of this host, or waits for those of the others, for a few seconds."""
        self._has_finished = True
        self._listener.call_soon(self._hurry.set)
        if self._hosts.is_first:
            self._wait_for(lambda: all(m.get("finished") for m in self._open.values()), _LEAVE_SECS)

    def watch(self, on_problem: Callable[[str], object]) -> None:
        """Calls `on_problem` with a sentence, on some thread, once a host is lost or has failed.

        If this process has not called `leave` within 15 s after that, it is ended.
        """
        self._on_problem = on_problem
        if self.problem:
            on_problem(self.problem)

    @contextlib.contextmanager
    def joining(self) -> Iterator[None]:
        """Marks that this host takes part in an update, or in the agreement on whether there is one."""
        self._since = time.monotonic()
        self._joined += 1
        try:
            yield
        finally:
            self._since = 0.0

    def check(self) -> None:
        """Raises HostLostError if there is a problem."""
        if self.problem:
            raise HostLostError(self.problem)

    def explain(self, error: BaseException) -> HostLostError:
        """The reason for an error of a reduction; waits until the lost host is known."""
        self._wait_for(lambda: bool(self.problem), self._timeout_secs)
        return HostLostError(self.problem or f"The reduction over the hosts failed ({reason(error)}).")

    async def _serve(self, requests: Any, context: Any) -> None:
        try:
            heard = await self._read(context.read)
            index, refusal = int(heard["index"]), self._refusal(heard)
            heard |= {"joined": 0, "waiting": 0.0, "address": str(heard["address"])}
        except Exception:  # Of what any peer may send.
            return
        if refusal is not None:
            if refusal:
                await context.write(json.dumps(self._message() | {"problem": refusal}).encode())
            return
        why = "its connection ended"
        try:
            why = await self._converse(index, heard, context.read, context.write)
        finally:  # Also if gRPC cancels this.
            self._lose(index, why)

    def _refusal(self, heard: dict[str, Any]) -> str | None:
        """Reason that a host may not join: a sentence, or '' if it is to try again; None if it may."""
        index, theirs, hosts = int(heard["index"]), dict(heard["identity"]), self._hosts
        if not 0 < index < hosts.count:
            return f"There is no learner host {index}; --learner_index must be below {hosts.count}."
        if self._left is not None or self.problem:  # This run ends; the host may belong to the next one.
            return "" if self._addresses else self.problem
        if index in self._open or self._addresses:
            return (
                f"Another process is {hosts.name(index)} already; give each learner host its own "
                "--learner_index, and stop processes of an earlier run."
            )
        mine = self._identity
        names = [name for name in mine | theirs if mine.get(name) != theirs.get(name)]
        if not names:
            return None
        found = "; ".join(f"{name}: {mine.get(name)} here, {theirs.get(name)} there" for name in names)
        self._fail(
            f"{hosts.name(index)} differs from {hosts.name(0)} ({found}); start all learner hosts with the "
            "same flags and versions."
        )
        return self.problem

    def _start_calling(self) -> None:
        self._calling = asyncio.ensure_future(self._call())

    async def _call(self) -> None:
        """Another host's end of its stream; it calls again until all have joined."""
        security, deadline = self._security, time.monotonic() + self._timeout_secs
        options = [*channel_options(-1), ("grpc.max_reconnect_backoff_ms", 1_000)]
        channel = security.channel(self._hosts.addresses[0], options)
        unusable = asyncio.ensure_future(why_unusable(channel, self._hosts.addresses[0], security))
        unusable.add_done_callback(lambda done: None if done.cancelled() else self._fail(done.result()))
        first = {"index": self._hosts.index, "identity": self._identity, "address": self._address}
        try:
            while not self.problem and time.monotonic() < deadline:
                method = channel.stream_stream(f"/{SERVICE}/{METHOD}")
                call = method(metadata=security.metadata(), wait_for_ready=True)
                try:
                    with contextlib.suppress(asyncio.InvalidStateError):  # Refused: the reason is read next.
                        await asyncio.wait_for(call.write(json.dumps(first).encode()), self._timeout_secs)
                    why = await self._converse(0, await self._read(call.read), call.read, call.write)
                    if self._lose(0, why):
                        return
                except (ConnectionError, TimeoutError, ValueError, TypeError):
                    pass
                except grpc.RpcError as error:
                    if error.code() == grpc.StatusCode.UNAUTHENTICATED:
                        self._fail(error.details() or "")
                finally:
                    call.cancel()
                await asyncio.sleep(self._beat_secs)
            self._miss([0])
        finally:
            unusable.cancel()
            await channel.close()

    async def _converse(
        self,
        index: int,
        heard: dict[str, Any],
        read: Callable[[], Awaitable[Any]],
        write: Callable[[bytes], Awaitable[None]],
    ) -> str:
        """Exchanges messages with a host, after its first one, `heard`, until the one of higher index leaves.

        Returns how it was lost; empty if it was not.
        """
        is_first, address = self._hosts.is_first, heard.get("address")
        try:
            while True:
                self._hear(index, {"address": address} | heard)
                if is_first and heard.get("left") is not None:
                    return ""
                if not is_first:
                    beat_secs = self._beat_secs if heard.get("ready") else _JOINING_BEAT_SECS
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(self._hurry.wait(), beat_secs)
                    self._hurry.clear()
                message = self._message()
                await write(json.dumps(message).encode())
                if not is_first and message["left"] is not None:
                    await asyncio.wait_for(read(), _LEAVE_SECS)  # Until the first host has read it.
                    return ""
                heard = await self._read(read)
        except TimeoutError:
            return f"it has been silent for {self._timeout_secs:g} s"
        except (ConnectionError, asyncio.InvalidStateError, grpc.RpcError, grpc.aio.BaseError):
            return "its connection ended"
        except Exception as error:
            return f"it sent something else than expected: {error!r}"
        finally:
            with self._changed:
                self._open.pop(index, None)
                self._changed.notify_all()

    def _message(self) -> dict[str, Any]:
        since = self._since
        return {
            "addresses": self._addresses,
            "ready": self._is_ready,
            "problem": self.problem,
            "joined": self._joined,
            "waiting": time.monotonic() - since if since else 0.0,
            "report": {} if self._hosts.is_first else self.take_report(),
            "finished": self._has_finished,
            "left": self._left,
        }

    def _hear(self, index: int, message: dict[str, Any]) -> None:
        """Takes a message of a host; on the first host, also looks for an update that hangs."""
        self._fail(message.get("problem"))
        if left := message.get("left"):
            self._fail(f"{self._hosts.name(index)} failed: {left}")
        self._first_has_left |= left is not None and index == 0
        if message.get("report"):
            self.on_report(index, message["report"])
        with self._changed:
            self._open[index] = message
            if not self._hosts.is_first:
                self._addresses = list(message["addresses"])
            elif not self._addresses and len(self._open) == self._hosts.count - 1:
                self._addresses = [self._address, *(self._open[i]["address"] for i in sorted(self._open))]
            self._changed.notify_all()
        if self._hosts.is_first:
            self._fail(self._hanging_update())

    def _hanging_update(self) -> str:
        """A sentence if a host does not join an update in time, or its reduction does not end; else ''."""
        progress, seconds = {0: self._message(), **self._open}, self._timeout_secs
        if max(message["waiting"] for message in progress.values()) <= seconds:
            return ""
        last = max(message["joined"] for message in progress.values())
        if late := [self._hosts.name(i) for i, m in sorted(progress.items()) if m["joined"] < last]:
            return (
                f"{', '.join(late)} did not join an update within {seconds:g} s; look at its output, or "
                "raise --host_timeout_secs if it was saving a checkpoint."
            )
        return (
            f"An update of the {self._hosts.count} learner hosts did not end within {seconds:g} s; check the "
            "network between them, or raise --host_timeout_secs."
        )

    async def _read(self, read: Callable[[], Awaitable[Any]]) -> dict[str, Any]:
        data = await asyncio.wait_for(read(), self._timeout_secs)
        if data is grpc.aio.EOF:
            raise ConnectionError
        message = parse_json(data)
        if not isinstance(message, dict):
            raise ValueError("not an object")
        for field in RANGES["Meet"]:
            if sentence := problem("Meet", field, message.setdefault(field, 0)):
                raise ValueError(sentence)
        return message

    def _miss(self, indices: Iterable[int]) -> None:
        self._fail(
            f"{', '.join(map(self._hosts.name, indices))} did not come within {self._timeout_secs:g} s; "
            "start every host with the same --learner_hosts and an index of its own, or raise "
            "--host_timeout_secs."
        )

    def _lose(self, index: int, why: str) -> bool:
        """Handles the end of a stream; returns whether it was the last one to that host."""
        if why and self._addresses:
            self._fail(f"{self._hosts.name(index)} is lost: {why}.")
        return not why or bool(self._addresses)

    def _fail(self, sentence: str | None) -> None:
        """Sets the problem, if there is one and it is the first."""
        with self._changed:
            if not sentence or self.problem or self._left is not None:
                return
            self.problem = one_line(str(sentence), 1_000)
            self._changed.notify_all()
        threading.Thread(target=self._on_problem, args=(self.problem,), daemon=True).start()
        threading.Thread(target=self._end_if_stuck, name="last-resort-peers", daemon=True).start()

    def _end_if_stuck(self) -> None:
        self._wait_for(lambda: self._left is not None, _LAST_RESORT_SECS)
        if self._left is None:
            with contextlib.suppress(OSError):
                os.write(self.stderr, f"seed_rl: error: {self.problem}\n".encode())
            os._exit(1)

    def _wait_for(
        self, condition: Callable[[], bool], seconds: float, stopping: Callable[[], bool] = lambda: False
    ) -> None:
        deadline = time.monotonic() + seconds
        with self._changed:
            while not condition() and not stopping() and time.monotonic() < deadline:
                self._changed.wait(_POLL_SECS)
