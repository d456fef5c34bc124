"""Collects requests of different sizes into batches. Independent of gRPC and TensorFlow.

Clients register (`connect`) and submit one request at a time (`submit`), which counts as answered when the
consumer calls `finish`. The consumer gets a batch as soon as it is full, or every connected client is
waiting, or its oldest request has waited for the time-out. Batches do not wait for a client that has missed
a time-out until it submits again, so a frozen client costs the others one time-out.
"""

import collections
import enum
import math
import threading
import time
from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar

RequestT = TypeVar("RequestT")


class _State(enum.Enum):
    AWAY = enum.auto()  # It is working on its own; batches wait for its next request.
    STALLED = enum.auto()  # Away for longer than a time-out: batches do not wait for it.
    WAITING = enum.auto()  # Its request is pending or in a batch.


class WakeUpSource(Protocol):
    """Wakes a consumer for requests that no other thread submits."""

    def wait(self, timeout_secs: float | None) -> None:
        """Waits for requests and submits them; returns early, when there are some or after `wake`."""

    def wake(self) -> None:
        """Ends a `wait` in another thread."""


class Batcher(Generic[RequestT]):
    """A thread-safe batcher; requests are opaque.

    Attributes:
      wake_ups: what a consumer waits for besides the batcher itself; None: nothing.
    """

    def __init__(self, max_batch_size: int, timeout_secs: float, wake_ups: WakeUpSource | None = None):
        """Prepares a batcher.

        Args:
          max_batch_size: most environments in a batch.
          timeout_secs: longest time that a request waits for others.
          wake_ups: what one of the consumers waits for, so that its requests need no thread of their own.
        """
        self.wake_ups = wake_ups
        self._waiting_thread: int | None = None  # The one that waits for wake-ups.
        self._max_batch_size = max_batch_size
        self._timeout_secs = timeout_secs
        self._states: dict[int, _State] = {}
        self._away = 0  # Number of clients whose state is AWAY.
        self._pending: collections.deque[tuple[int, RequestT, int, float]] = collections.deque()
        self._pending_size = 0
        self._next_client = 0
        self._closed = False
        self._changed = threading.Condition()

    def connect(self) -> int:
        """Registers a client and returns its id."""
        with self._changed:
            client = self._next_client
            self._next_client += 1
            self._states[client] = _State.AWAY
            self._away += 1
            return client

    def disconnect(self, client: int) -> None:
        """Forgets a client and its pending request; a batch that it is part of continues without it."""
        with self._changed:
            self._set_state(client, None)
            kept = [entry for entry in self._pending if entry[0] != client]
            if len(kept) != len(self._pending):
                self._pending = collections.deque(kept)
                self._pending_size = sum(size for _, _, size, _ in kept)
            self._changed.notify_all()
            self._wake()

    def is_connected(self, client: int) -> bool:
        """Whether a client is still connected."""
        with self._changed:
            return client in self._states

    def submit(self, client: int, request: RequestT, size: int) -> None:
        """Submits the request of a connected client.

        Args:
          client: from `connect`.
          request: passed to the consumer as it is.
          size: number of environments in it.

        Raises:
          ValueError: the request is larger than a batch.
          RuntimeError: the client is not connected or is already waiting for an answer.
        """
        if size > self._max_batch_size:
            raise ValueError(f"A request of {size} environments exceeds the batch of {self._max_batch_size}.")
        with self._changed:
            if self._states.get(client, _State.WAITING) is _State.WAITING:
                raise RuntimeError(f"Client {client} is not connected or is already waiting for an answer.")
            self._add([(client, request, size)])

    def submit_all(self, requests: Iterable[tuple[int, RequestT, int]]) -> None:
        """Submits requests, each as in `submit`; leaves out those of clients that have disconnected."""
        with self._changed:
            self._add([entry for entry in requests if entry[0] in self._states])

    def next_batch(self, timeout_secs: float | None = None) -> list[tuple[int, RequestT]] | None:
        """Waits for a batch: (client, request) pairs in order of arrival; None once closed.

        With `timeout_secs`, an empty list if there was no batch in time.
        """
        deadline = math.inf if timeout_secs is None else time.monotonic() + timeout_secs
        with self._changed:
            while not self._closed:
                if self._pending and self._ready():
                    return self._take()
                now = time.monotonic()
                wait = deadline - now
                if wait <= 0:
                    return []
                if self._pending:
                    due = self._pending[0][3] + self._timeout_secs - now
                    if due <= 0:
                        self._stall()
                        return self._take()
                    wait = min(wait, due)
                self._wait(None if wait == math.inf else wait)
            return None

    def finish(self, clients: list[int]) -> None:
        """Records that the requests of these clients are answered: the clients are away again."""
        with self._changed:
            for client in clients:
                if client in self._states:
                    self._set_state(client, _State.AWAY)

    def close(self) -> None:
        """Ends every `next_batch`, now and later."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            self._wake()

    def _add(self, requests: list[tuple[int, RequestT, int]]) -> None:
        now, was_empty = time.monotonic(), not self._pending
        for client, request, size in requests:
            self._set_state(client, _State.WAITING)
            self._pending.append((client, request, size, now))
            self._pending_size += size
        if self._pending and (was_empty or self._ready()):
            self._changed.notify()
            self._wake()

    def _wait(self, timeout_secs: float | None) -> None:
        """Waits for a change; the first consumer also waits for wake-ups."""
        if self.wake_ups is None or self._waiting_thread is not None:
            self._changed.wait(timeout_secs)
            return
        self._waiting_thread = threading.get_ident()
        self._changed.release()
        try:
            self.wake_ups.wait(timeout_secs)
        finally:
            self._changed.acquire()
            self._waiting_thread = None

    def _wake(self) -> None:
        """Wakes the consumer that waits for wake-ups, unless it is this thread."""
        if self.wake_ups is not None and self._waiting_thread not in (None, threading.get_ident()):
            self.wake_ups.wake()

    def _ready(self) -> bool:
        return self._away == 0 or self._pending_size >= self._max_batch_size

    def _take(self) -> list[tuple[int, RequestT]]:
        batch: list[tuple[int, RequestT]] = []
        room = self._max_batch_size
        while self._pending and self._pending[0][2] <= room:
            client, request, size, _ = self._pending.popleft()
            batch.append((client, request))
            room -= size
        self._pending_size -= self._max_batch_size - room
        if self._pending or self.wake_ups is not None:
            self._changed.notify()  # Another consumer may take a batch, or wait for wake-ups.
        return batch

    def _stall(self) -> None:
        for client, state in self._states.items():
            if state is _State.AWAY:
                self._states[client] = _State.STALLED
        self._away = 0

    def _set_state(self, client: int, state: _State | None) -> None:
        before = self._states.pop(client, None)
        self._away += (state is _State.AWAY) - (before is _State.AWAY)
        if state is not None:
            self._states[client] = state
