"""Child processes watched from one loop: what happened to them, and how they are ended.

The supervisor, the containers on Vertex AI, sweeps and the benchmarks are policies over these events.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from seed_rl.signals import StopSignals

POLL_SECS = 0.1


class Process(Protocol):
    """What is watched, in the words of `launch.child.Child`."""

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
    """A child has ended; it is not watched any more.

    Attributes:
      child: which.
      code: its exit code; negative: minus the signal that ended it.
    """

    child: Process
    code: int


class Signalled(NamedTuple):
    """This process was asked to stop.

    Attributes:
      number: how many signals have come so far.
    """

    number: int


class Tick(NamedTuple):
    """All children were looked at; a pause follows."""


Event = Signalled | Ended | Tick


def at_once() -> float:
    """For `Watch.wait` and `Watch.end`: a signal ends the wait."""
    return 0.0


class Watch:
    """Yields what happens, without end: in each round a signal, the children that have ended, and a tick."""

    def __init__(
        self, children: Sequence[Process] = (), stop: StopSignals | None = None, poll_secs: float = POLL_SECS
    ):
        """Watches.

        Args:
          children: those that were started already.
          stop: counts the signals; None: there are no signals among the events.
          poll_secs: between two looks at the children.
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
        """The events; children may be started and ended meanwhile."""
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
        """Waits until children have ended, and says whether all of them have.

        Args:
          children: those that are not watched count as ended. All others stay as they are.
          seconds: the longest wait.
          on_end: called with each child that has ended, and its exit code.
          on_signal: called at each further signal; returns the most seconds that are left then. None:
            signals change nothing.
          signals_seen: signals beyond so many are further ones; by default those from now on.
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
        """Asks children to end (SIGTERM), waits, and kills what is left of them and of what they started.

        Args:
          children: any, also those that never ran or have ended.
          grace_secs: what they get to end by themselves.
          on_end: as in `wait`.
          on_signal: as in `wait`.
          signals_seen: as in `wait`.

        Returns:
          Whether all have ended by themselves.
        """
        for child in children:
            child.terminate()
        ended = self.wait(children, grace_secs, on_end, on_signal, signals_seen)
        for child in children:
            child.kill()
        return ended

    def _signal_came(self) -> bool:
        """Whether there were signals since this was last asked; several count as one."""
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
