"""Connections of a learner host to the other hosts of its run. No TensorFlow.

The launcher fixes the addresses of the hosts (`wire.hosts.LearnerHosts`). Each of the others opens a stream
to the first host, over which both send the same kind of message in turns, a JSON object, at least once a
second:

1. A host joins with its index, its settings and versions, and the address that it holds for TensorFlow. The
   first host refuses it if they differ from its own.
2. When all have joined, the first host's messages contain the addresses, which every host tries. When all are
   ready, TensorFlow starts.
3. From then on a message is also a heartbeat. It has the number of updates that the host has joined and its
   waiting time in the last one, and brings figures to the first host.
4. A host that ends sends `left` with the reason, or an empty one if all have agreed to end.

Any loss or failure is one sentence, which the first host passes on to all. All hosts end with it.
"""

import asyncio
import contextlib
import json
import os
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from typing import Any

import grpc

from seed_rl.files import parse_json
from seed_rl.hosts.watchdog import HostLostError, HostsDisagreeError, ended_after, hanging_update
from seed_rl.messages import one_line, reason
from seed_rl.serving.listener import Listener
from seed_rl.wire.hosts import METHOD, SERVICE, LearnerHosts, listen, unreached
from seed_rl.wire.protocol import channel_options
from seed_rl.wire.ranges import RANGES, problem
from seed_rl.wire.security import Security
from seed_rl.wire.tls import why_unusable

_LONGEST_BEAT_SECS, _JOINING_BEAT_SECS = 1.0, 0.1
# Time limit for the main thread to end by itself after a problem is reported.
_LAST_RESORT_SECS = 15.0
_LEAVE_SECS = 10.0
_POLL_SECS = 0.1


class Peers:
    """The other learner hosts. The main thread calls the methods; everything else is on the listener's loop.

    Attributes:
      hosts: all of them, and which one this is.
      problem: why the hosts must all end; empty as long as all is well.
      take_report: returns what a host other than the first reports with its next message, a JSON object.
      on_report: called with a host's index and what it reported, on the first host; neither may block.
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
          hosts: see the attribute.
          listener: its loop is used; the first host is called there.
          timeout_secs: how long a host may be silent, or wait for the others.
          identity: settings and versions that all hosts must share, JSON values by name.
          security: what a host needs to call the first one.
        """
        self.hosts, self.problem = hosts, ""
        self.take_report: Callable[[], dict[str, Any]] = dict
        self.on_report: Callable[[int, dict[str, Any]], None] = lambda index, report: None
        self._listener, self._timeout_secs = listener, timeout_secs
        self._security = security.between_learners()
        self._identity = json.loads(json.dumps(dict(identity)))
        self._beat_secs = min(_LONGEST_BEAT_SECS, timeout_secs / 10)
        self._stderr = os.dup(2)  # It may be redirected by the time that a message must be shown.
        self._changed = threading.Condition()
        self._on_problem: Callable[[str], object] = lambda sentence: None
        self._jobs: list[asyncio.Task[None]] = []
        self._joined, self._since = 0, 0.0  # Updates, and when the last one began; 0.0 if it is over.
        self._left: str | None = None
        self._hurry, self._has_left, self._first_has_left = asyncio.Event(), threading.Event(), False
        self._has_finished = False
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
        others, first, patience = range(1, self.hosts.count), self.hosts.is_first, self._timeout_secs
        if first:
            self._wait_for(lambda: len(self._open) == len(others) or bool(self.problem), patience, stopping)
            with self._changed:
                if len(self._open) == len(others):
                    self._addresses = [self._address, *(self._open[i]["address"] for i in others)]
        else:
            self._start(self._call)
            patience *= 2  # The last host may come long after this one.
            self._wait_for(lambda: bool(self._addresses or self.problem), patience, stopping)
        if not self._addresses and not self.problem:
            if stopping():
                return []
            self._miss([i for i in others if i not in self._open] if first else [0])
        if not self.problem and (sentence := unreached(self.hosts, self._addresses, self._timeout_secs)):
            self._fail(sentence)
        self._is_ready = not first
        self._wait_for(lambda: self._all_ready() or bool(self.problem), patience, stopping)
        self._is_ready = self._all_ready()
        if stopping() and not self._is_ready:
            return []
        if not self._is_ready:
            self._fail(f"The learner hosts did not reach one another within {patience:g} s.")
        if self.problem:
            raise HostsDisagreeError(self.problem)
        if first:
            self._start(self._watch_updates)
        self._held.close()
        return self._addresses

    def _all_ready(self) -> bool:
        """Whether all hosts that this one has a stream to are ready."""
        return bool(self._open) and all(message.get("ready") for message in self._open.values())

    def leave(self, reason: str = "") -> None:
        """Notifies the others that this host ends; a second call does nothing.

        Args:
          reason: a sentence if it fails, after which all end; empty if all have agreed to end. Then the first
            host leaves first: it saves the run.
        """
        if self._left is not None:
            return
        if not reason and not self.hosts.is_first:
            self._wait_for(
                lambda: self._first_has_left or bool(self.problem) or not self._open, self._timeout_secs
            )
        self._left = reason
        self._has_left.set()
        self._listener.call_soon(self._hurry.set)
        self._wait_for(lambda: not self._open, _LEAVE_SECS)
        for job in self._jobs:
            self._listener.call_soon(job.cancel)
        self._held.close()
        os.close(self._stderr)

    def finish(self) -> None:
        """Sends the last report of this host, or waits for those of the others, for a few seconds."""
        self._has_finished = True
        self._listener.call_soon(self._hurry.set)
        if self.hosts.is_first:
            self._wait_for(lambda: all(m.get("finished") for m in self._open.values()), _LEAVE_SECS)

    def watch(self, on_problem: Callable[[str], object]) -> None:
        """Calls `on_problem` with a sentence, on some thread, once a host is lost or has failed.

        If this process has not called `leave` within 15 s after that, it is ended.
        """
        self._on_problem = on_problem
        if self.problem:
            on_problem(self.problem)

    def connecting(self) -> contextlib.AbstractContextManager[None]:
        """Surrounds the call in which TensorFlow connects to all hosts: it blocks every Python thread."""
        others = ", ".join(self.hosts.name(i) for i in range(self.hosts.count) if i != self.hosts.index)
        within = f"within {self._timeout_secs:g} s; look at the output of the other learner hosts."
        return ended_after(self._timeout_secs, f"TensorFlow did not reach {others} {within}", self._stderr)

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
        """The reason for an error of TensorFlow's reductions; waits until the lost host is known."""
        self._wait_for(lambda: bool(self.problem), self._timeout_secs)
        found = self.problem or f"The reduction over the learner hosts failed ({reason(error)})."
        return HostLostError(found)

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
        index, theirs = int(heard["index"]), dict(heard["identity"])
        if not 0 < index < self.hosts.count:
            return f"There is no learner host {index}; --learner_index must be below {self.hosts.count}."
        if self._left is not None or self.problem:  # This run ends; the host may belong to the next one.
            return "" if self._addresses else self.problem
        if index in self._open or self._addresses:
            return (
                f"Another process is {self.hosts.name(index)} already; give each learner host its own "
                "--learner_index, and stop processes of an earlier run."
            )
        mine = self._identity
        names = [name for name in mine | theirs if mine.get(name) != theirs.get(name)]
        if not names:
            return None
        found = "; ".join(f"{name}: {mine.get(name)} here, {theirs.get(name)} there" for name in names)
        self._fail(
            f"{self.hosts.name(index)} differs from {self.hosts.name(0)} ({found}); start all learner hosts "
            "with the same flags and versions."
        )
        return self.problem

    async def _call(self) -> None:
        """Another host's end of its stream; it calls again until all have joined."""
        security, deadline = self._security, time.monotonic() + self._timeout_secs
        options = [*channel_options(-1), ("grpc.max_reconnect_backoff_ms", 1_000)]
        channel = security.channel(self.hosts.addresses[0], options)
        unusable = asyncio.ensure_future(why_unusable(channel, self.hosts.addresses[0], security))
        unusable.add_done_callback(lambda done: None if done.cancelled() else self._fail(done.result()))
        first = {"index": self.hosts.index, "identity": self._identity, "address": self._address}
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
        is_first, address = self.hosts.is_first, heard.get("address")
        try:
            while True:
                self._hear(index, heard)
                with self._changed:
                    self._open[index] = {"address": address} | heard
                    if not is_first:
                        self._addresses = list(heard["addresses"])
                    self._changed.notify_all()
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
            "report": {} if self.hosts.is_first else self.take_report(),
            "finished": self._has_finished,
            "left": self._left,
        }

    def _hear(self, index: int, message: dict[str, Any]) -> None:
        if message.get("problem"):
            self._fail(message["problem"])
        if left := message.get("left"):
            self._fail(f"{self.hosts.name(index)} failed: {left}")
        self._first_has_left |= left is not None and index == 0
        if message.get("report"):
            self.on_report(index, message["report"])

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

    async def _watch_updates(self) -> None:
        while self._left is None and not self.problem:
            progress = {0: self._message(), **self._open}
            if sentence := hanging_update(progress, self.hosts, self._timeout_secs):
                self._fail(sentence)
            await asyncio.sleep(self._beat_secs)

    def _miss(self, indices: Iterable[int]) -> None:
        self._fail(
            f"{', '.join(map(self.hosts.name, indices))} did not come within {self._timeout_secs:g} s; start "
            "every host with the same --learner_hosts and an index of its own, or raise --host_timeout_secs."
        )

    def _lose(self, index: int, why: str) -> bool:
        """Handles the end of a stream; returns whether it was the last one to that host."""
        if why and self._addresses:
            self._fail(f"{self.hosts.name(index)} is lost: {why}.")
        return not why or bool(self._addresses)

    def _fail(self, sentence: str) -> None:
        """Sets the problem, if it is the first one."""
        with self._changed:
            if self.problem or self._left is not None:
                return
            self.problem = one_line(str(sentence), 1_000)
            self._changed.notify_all()
        threading.Thread(target=self._on_problem, args=(self.problem,), daemon=True).start()
        threading.Thread(target=self._end_if_stuck, name="last-resort-peers", daemon=True).start()

    def _end_if_stuck(self) -> None:
        if not self._has_left.wait(_LAST_RESORT_SECS):
            with contextlib.suppress(OSError):
                os.write(self._stderr, f"seed_rl: error: {self.problem}\n".encode())
            os._exit(1)

    def _wait_for(
        self, condition: Callable[[], bool], seconds: float, stopping: Callable[[], bool] = lambda: False
    ) -> None:
        deadline = time.monotonic() + seconds
        with self._changed:
            while not condition() and not stopping() and time.monotonic() < deadline:
                self._changed.wait(_POLL_SECS)

    def _start(self, job: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Runs a coroutine on the listener's loop until it ends or this host leaves."""
        self._listener.call_soon(lambda: self._jobs.append(asyncio.ensure_future(job())))
