"""What a learner host knows of the others, whichever of them it is. No TensorFlow.

The first host keeps a list of the others. Each of them has a stream to it, over which both sides send small
JSON objects: who they are, whether they are ready, how far they are, what their actors reported, and what is
wrong. TensorFlow's own connections, over which gradients travel, use another port of each host; the hosts
tell each other which one, and try it, before TensorFlow starts.
"""

import abc
import asyncio
import concurrent.futures
import contextlib
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from typing import Any

from seed_rl.files import parse_json
from seed_rl.hosts.watchdog import ended_after
from seed_rl.messages import one_line, reason
from seed_rl.serving.listener import Listener
from seed_rl.wire.hosts import SERVICE, LearnerHosts

METHOD = f"/{SERVICE}/Meet"

# What all hosts do at a time: they come, try each other's ports, and train, until the first one leaves.
GATHERING, PROBING, RUNNING, OVER = range(4)

_LONGEST_BEAT_SECS = 1.0
# How long the main thread has, after a problem is known, to end by itself.
_LAST_RESORT_SECS = 15.0
_POLL_SECS = 0.1


class HostsDisagreeError(ValueError):
    """The learner hosts cannot start together; the message is one sentence."""


class HostLostError(RuntimeError):
    """A learner host is lost, has failed, or does not take part; the message names it."""


class Peers(abc.ABC):
    """The other learner hosts. The main thread calls the methods; everything else is on the listener's loop.

    Attributes:
      hosts: all of them, and which one this is.
      problem: why the hosts must all end; empty as long as all is well.
      take_report: returns what a host other than the first reports with its next sign of life, a JSON object.
      on_report: called with a host's index and what it reported, on the first host; neither may block.
    """

    def __init__(
        self, hosts: LearnerHosts, listener: Listener, timeout_secs: float, identity: Mapping[str, Any]
    ):
        """Prepares; `meet` begins.

        Args:
          hosts: all of them, and which one this is.
          listener: its loop is used; the first host is called there.
          timeout_secs: how long a host may be silent, or wait for the others.
          identity: settings and versions that all hosts must share, JSON values by name.
        """
        self.hosts, self.problem = hosts, ""
        self.take_report: Callable[[], dict[str, Any]] = dict
        self.on_report: Callable[[int, dict[str, Any]], None] = lambda index, report: None
        self._listener, self._timeout_secs = listener, timeout_secs
        self._identity = json.loads(json.dumps(dict(identity)))
        self._beat_secs = min(_LONGEST_BEAT_SECS, timeout_secs / 10)
        self._stderr = os.dup(2)  # It may be redirected by the time that a message must be shown.
        self._changed = threading.Condition()
        self._on_problem: Callable[[str], object] = lambda sentence: None
        self._progress = _Progress()
        self._is_leaving = threading.Event()
        self._held = _hold_port(hosts.machine())
        # Where TensorFlow will listen on this host.
        self._collective = f"{hosts.machine()}:{self._held.getsockname()[1]}"
        self._tasks: list[asyncio.Task[None]] = []
        self._pool = concurrent.futures.ThreadPoolExecutor(2, thread_name_prefix="peers")

    @abc.abstractmethod
    def meet(self, stopping: Callable[[], bool]) -> list[str]:
        """Waits until all hosts are there and can reach one another.

        Returns:
          HOST:PORT of each host for TensorFlow, all of which are free; empty if `stopping` returned true.

        Raises:
          HostsDisagreeError: a host does not come, has other settings, or cannot be reached.
        """

    @abc.abstractmethod
    def leave(self, reason: str = "") -> None:
        """Tells the others that this host ends; a second call does nothing.

        Args:
          reason: a sentence if it fails, after which all end; empty if all have agreed to end.
        """

    def watch(self, on_problem: Callable[[str], object]) -> None:
        """Calls `on_problem` with a sentence, on some thread, once a host is lost or has failed.

        If this process has not called `leave` within 15 s after that, it is ended.
        """
        self._on_problem = on_problem
        if self.problem:
            on_problem(self.problem)

    def connecting(self) -> contextlib.AbstractContextManager[None]:
        """Surrounds the call in which TensorFlow connects to all hosts: it blocks every Python thread."""
        others = [self.hosts.name(i) for i in range(self.hosts.count) if i != self.hosts.index]
        return ended_after(
            self._timeout_secs,
            f"TensorFlow did not reach {', '.join(others)} within {self._timeout_secs:g} s; look at the "
            "output of the other learner hosts.",
            self._stderr,
        )

    @contextlib.contextmanager
    def joining(self) -> Iterator[None]:
        """Marks that this host takes part in an update, or in the agreement on whether there is one."""
        self._progress.enter()
        try:
            yield
        finally:
            self._progress.leave()

    def check(self) -> None:
        """Raises HostLostError if there is a problem."""
        if self.problem:
            raise HostLostError(self.problem)

    def explain(self, error: BaseException) -> HostLostError:
        """The reason for an error of TensorFlow's reductions; waits until the lost host is known."""
        self._wait_for(lambda: bool(self.problem), self._timeout_secs)
        return HostLostError(
            self.problem or f"The reduction over the learner hosts failed ({reason(error)})."
        )

    def _fail(self, sentence: str) -> None:
        """Sets the problem, if it is the first one."""
        with self._changed:
            if self.problem or self._is_leaving.is_set():
                return
            self.problem = one_line(str(sentence), 1_000)
            self._changed.notify_all()
        self._pool.submit(self._on_problem, sentence)
        threading.Thread(target=self._end_if_stuck, name="last-resort-peers", daemon=True).start()

    def _absence(self, indices: Iterable[int]) -> str:
        """The sentence on hosts that have not come in time."""
        return (
            f"{', '.join(map(self.hosts.name, indices))} did not come within {self._timeout_secs:g} s; start "
            "every host with the same --learner_hosts and an index of its own, or raise --host_timeout_secs."
        )

    def _end_if_stuck(self) -> None:
        if not self._is_leaving.wait(_LAST_RESORT_SECS):
            with contextlib.suppress(OSError):
                os.write(self._stderr, f"seed_rl: error: {self.problem}\n".encode())
            os._exit(1)

    def _wait_for(
        self, condition: Callable[[], bool], seconds: float, stopping: Callable[[], bool] = lambda: False
    ) -> bool:
        """Waits until the condition holds, for so long; returns whether it does."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while not condition():
                if stopping() or time.monotonic() >= deadline:
                    return False
                self._changed.wait(_POLL_SECS)
        return True

    def _probe(self, collectives: Sequence[str]) -> str:
        """Tries to reach the other hosts; returns a sentence if one cannot be reached."""
        for index, address in enumerate(collectives):
            host, _, port = address.rpartition(":")
            try:
                socket.create_connection((host.strip("[]"), int(port)), self._timeout_secs).close()
            except OSError as error:
                return (
                    f"{self.hosts.name(self.hosts.index)} cannot reach {self.hosts.name(index)} at "
                    f"{address} ({error}); learner hosts need all ports open among them."
                )
        return ""

    def _start(self, job: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Runs a coroutine on the listener's loop until it ends or this host leaves."""
        self._listener.call_soon(lambda: self._tasks.append(asyncio.ensure_future(job())))

    def _free_port(self) -> None:
        self._held.close()

    def _end(self) -> None:
        self._is_leaving.set()
        for task in self._tasks:
            self._listener.call_soon(task.cancel)
        self._pool.shutdown(wait=False)
        self._free_port()
        os.close(self._stderr)


class _Progress:
    """How far the main thread is. Thread-safe: each value is set in one piece."""

    def __init__(self) -> None:
        self._entered, self._since = 0, 0.0

    def enter(self) -> None:
        self._since = time.monotonic()
        self._entered += 1

    def leave(self) -> None:
        self._since = 0.0

    def message(self) -> dict[str, Any]:
        """Updates that were joined, and seconds since the last one was, or 0 if it is over."""
        since = self._since
        return {"entered": self._entered, "waiting": time.monotonic() - since if since else 0.0}


def encode(message: Mapping[str, Any]) -> bytes:
    """A message as bytes."""
    return json.dumps(message).encode()


def decode(data: bytes) -> dict[str, Any]:
    """A message from bytes.

    Raises:
      ValueError: they are none.
    """
    message = parse_json(data)
    if not isinstance(message, dict):
        raise ValueError("not an object")
    return message


def _hold_port(machine: str) -> socket.socket:
    """A socket that listens on a free port, which is TensorFlow's once it is closed."""
    host = machine.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    held = socket.socket(family)
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        held.bind((host if family == socket.AF_INET6 or _is_own(host) else "", 0))
    except OSError:
        held.bind(("", 0))
    held.listen()
    return held


def _is_own(host: str) -> bool:
    """Whether the name stands for the loopback device."""
    return host in ("localhost", "127.0.0.1")
