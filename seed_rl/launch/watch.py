"""Watches child processes from one loop: reports what happens to them, and ends them.

The supervisor, the containers on Vertex AI, sweeps and the benchmarks each react to these events differently.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from seed_rl.signals import StopSignals

POLL_SECS = 0.1


class Process(Protocol):
    """A process that can be watched; the methods are those of `launch.child.Child`."""

    name: str
    log: Path | None

    @property
    def seconds(self) -> float: ...  # noqa: D102
    @property
    def running(self) -> bool: ...  # noqa: D102
    def start(self) -> None: ...  # noqa: D102
    def poll(self) -> int | None: ...  # noqa: D102
    def terminate(self) -> None: ...  # noqa: D102
    def kill(self) -> None: ...  # noqa: D102
    def last_line(self) -> str: ...  # noqa: D102


class Ended(NamedTuple):
    """A child has ended and is no longer watched.

    Attributes:
      child: the child.
      code: its exit code; -N if signal N ended it.
    """

    child: Process
    code: int


class Signalled(NamedTuple):
    """This process was asked to stop.

    Attributes:
      number: how many signals have arrived so far.
    """

    number: int


class Tick(NamedTuple):
    """All children were checked; a pause follows."""


Event = Signalled | Ended | Tick


def at_once() -> float:
    """An `on_signal` for `Watch.wait` and `Watch.end`: a signal ends the wait."""
    return 0.0


class Watch:
    """An endless stream of events: in each round, any signal, the children that have ended, and a tick."""

    def __init__(
        self, children: Sequence[Process] = (), stop: StopSignals | None = None, poll_secs: float = POLL_SECS
    ):
        """Prepares the watch.

        Args:
          children: children that were already started.
          stop: counts the signals; None: the events include no signals.
          poll_secs: pause between two rounds.
        """
        self._watched = list(children)
        self._stop = stop
        self._signals_seen = 0
        self._poll_secs = poll_secs

    def start(self, child: Process) -> None:
        """Starts a child, for the first time or again, and watches it."""
        child.start()
        self._watched.append(child)

    def __iter__(self) -> Iterator[Event]:
        """Yields the events; children may be started and ended in between."""
        while True:
            if self._signal_came():
                yield Signalled(self._signals_seen)
            yield from self._ends(self._watched)
            yield Tick()
            time.sleep(self._poll_secs)

    def wait(
        self,
        children: Sequence[Process],
        seconds: float,
        on_end: Callable[[Process, int], object] = lambda child, code: None,
        on_signal: Callable[[], float] | None = None,
        signals_seen: int | None = None,
    ) -> bool:
        """Waits until the given children have ended; returns whether all of them have.

        Args:
          children: the children to wait for; those that are not watched count as ended. All others are not
            affected.
          seconds: the time limit.
          on_end: called with each child that has ended, and its exit code.
          on_signal: called at each further signal; returns the new limit on the remaining seconds. None:
            signals have no effect.
          signals_seen: how many signals are not further ones; by default all that have arrived so far.
        """
        if self._stop is not None:
            self._signals_seen = self._stop.count if signals_seen is None else signals_seen
        deadline = time.monotonic() + seconds
        while True:
            if on_signal is not None and self._signal_came():
                deadline = min(deadline, time.monotonic() + on_signal())
            for child, code in self._ends(children):
                on_end(child, code)
            if not any(child in self._watched for child in children):
                return True
            if time.monotonic() >= deadline:
                return False
            time.sleep(self._poll_secs)

    def end(
        self,
        children: Sequence[Process],
        grace_secs: float,
        on_end: Callable[[Process, int], object] = lambda child, code: None,
        on_signal: Callable[[], float] | None = None,
        signals_seen: int | None = None,
    ) -> bool:
        """Sends children SIGTERM, waits, and kills those that are left and everything they started.

        Args:
          children: the children to end, which may also be ones that never ran or have already ended.
          grace_secs: how long they may take to end after SIGTERM.
          on_end: as in `wait`.
          on_signal: as in `wait`.
          signals_seen: as in `wait`.

        Returns:
          Whether all ended within that time.
        """
        for child in children:
            child.terminate()
        ended = self.wait(children, grace_secs, on_end, on_signal, signals_seen)
        for child in children:
            child.kill()
        return ended

    def _signal_came(self) -> bool:
        """Whether signals have arrived since the last call; several count as one."""
        before = self._signals_seen
        if self._stop is not None:
            self._signals_seen = max(before, self._stop.count)
        return self._signals_seen > before

    def _ends(self, children: Sequence[Process]) -> Iterator[Ended]:
        for child in list(children):
            code = child.poll() if child in self._watched else None
            if code is not None:
                self._watched.remove(child)
                yield Ended(child, code)
