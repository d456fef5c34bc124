"""The one supervisor: starts child processes, reports what happens, starts them again, and ends them.

A `Watch` yields events. What reacts to them is a policy: a local run (`launch.run`), gateways
(`launch.gateways`), a container on Vertex AI (`seed_rl vertex`), sweeps (`sweeps.runner`) and the benchmarks.
"""

import contextlib
import dataclasses
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from seed_rl.launch.child import Child
from seed_rl.messages import say
from seed_rl.signals import SAME_SIGNAL_SECS, StopSignals, exit_code


@dataclasses.dataclass(frozen=True)
class Timing:
    """Intervals and time limits, in seconds.

    Attributes:
      poll: interval between two checks of the processes.
      checkpoint_grace: how long a learner, or a run, may take to write its checkpoint after a signal, and
        how long several learners may take to end by themselves after one of them has.
      hurry_grace: how long children may take to end after a second signal, which is passed on to them.
      finish_grace: how long actors may take to exit on their own after the learner has exited with 0.
      terminate_grace: how long actors may take to exit after SIGTERM.
      verdict_grace: when an actor or one of several learners gives up, how long to wait in case the learner
        is ending, too.
      first_backoff: delay before the first restart of a child; it doubles with each restart.
      longest_backoff: upper limit of the delay.
      healthy_after: if a child ran for this long, its next delay is the first one again.
      same_signal: signals closer together than this count as one.
    """

    poll: float = 0.1
    checkpoint_grace: float = 60.0
    hurry_grace: float = 0.0
    finish_grace: float = 10.0
    terminate_grace: float = 5.0
    verdict_grace: float = 1.0
    first_backoff: float = 1.0
    longest_backoff: float = 30.0
    healthy_after: float = 60.0
    same_signal: float = SAME_SIGNAL_SECS


class ChildEnded(NamedTuple):
    """A child has ended, or could not be started again, and is no longer watched.

    Attributes:
      code: its exit code; -N if signal N ended it; 1 if it could not be started.
      error: why it could not be started; empty if it has run.
    """

    child: Child
    code: int
    error: str = ""

    def __str__(self) -> str:
        """In words: `actor 0 ended with exit code 1 (its last line; its log is run/actor_0.log)`."""
        if self.error:
            return f"{self.child.name} could not be started ({self.error})"
        return describe_end(self.child, self.code)


class Signalled(NamedTuple):
    """This process got a signal to stop; the number of signals so far."""

    number: int


class Tick(NamedTuple):
    """All children were checked; a pause follows."""


Event = Signalled | ChildEnded | Tick


class Restarts:
    """The growing delays before the restarts of a child that crashes, and their total number so far."""

    def __init__(self, timing: Timing):
        self.total = 0
        self._timing = timing
        self._next = timing.first_backoff

    def delay(self, lifetime: float) -> float:
        """Counts a restart of a child that ran for `lifetime` seconds; returns the delay in seconds."""
        if lifetime >= self._timing.healthy_after:
            self._next = self._timing.first_backoff
        delay, self._next = self._next, min(2 * self._next, self._timing.longest_backoff)
        self.total += 1
        return delay


class Watch:
    """An endless stream of events: in each round, any signal, the children that have ended, and a tick.

    Attributes:
      stop: counts the signals that arrive inside `running`.
    """

    def __init__(
        self,
        children: Sequence[Child] = (),
        timing: Timing = Timing(),
        say: Callable[[str], object] = say,
    ):
        """Prepares; the children, if any, were already started. `say` shows a sentence to the user."""
        self.timing = timing
        self.stop = StopSignals(timing.same_signal)
        self._watched = list(children)
        self._started: list[Child] = []
        self._seen = 0  # Signals that were reported or have ended a wait.
        self._say = say
        self._restarts: dict[Child, Restarts] = {}
        self._due: dict[Child, tuple[float, str]] = {}

    @contextlib.contextmanager
    def running(self, children: Sequence[Child] = ()) -> Iterator[None]:
        """A context that starts children, catches the signals, and leaves nothing running at its end.

        At an error, all that was started here has the time to write a checkpoint. Needs the main thread.
        """
        with self.stop.caught():
            try:
                for child in children:
                    self.start(child)
                yield
            except BaseException:
                self._say("stopping because of an error; a learner writes a checkpoint.")
                self.end(self._started, self.timing.checkpoint_grace)
                raise
            finally:
                for child in self._started:
                    child.kill()

    def start(self, child: Child) -> None:
        """Starts a child, for the first time or again, and watches it."""
        if child not in self._started:
            self._started.append(child)
        child.start()
        self._watched.append(child)

    def restarts(self, child: Child) -> int:
        """Number of restarts of a child that were ordered."""
        return self._restarts[child].total if child in self._restarts else 0

    def restart(self, ended: ChildEnded, most: int | None = None) -> None:
        """Orders a restart of a child that has ended, and logs it when it is due.

        If the start fails then, there is another `ChildEnded`. `most` is the number of restarts that the
        child may have, for the sentence.
        """
        restarts = self._restarts.setdefault(ended.child, Restarts(self.timing))
        delay = restarts.delay(0.0 if ended.error else ended.child.seconds)
        sentence = f"{ended}; restart {restarts.total}" + (f" of {most}." if most else ".")
        self._due[ended.child] = (time.monotonic() + delay, sentence)

    def __iter__(self) -> Iterator[Event]:
        """Yields the events; children may be started and ended in between."""
        while True:
            if self._signal_came():
                yield Signalled(self._seen)
            yield from self._ends(self._watched)
            yield from self._restart_those_due()
            yield Tick()
            time.sleep(self.timing.poll)

    def wait(self, children: Sequence[Child], seconds: float) -> bool:
        """Waits until children have ended, a further signal arrives, or the time is over.

        Those that are not watched count as ended. Returns whether all have ended.
        """
        return self._wait(children, seconds, lambda: 0.0)

    def end(self, children: Sequence[Child], grace_secs: float) -> bool:
        """Sends children SIGTERM, waits, and kills those that are left and everything they started.

        At a further signal, they get another SIGTERM and have only `timing.hurry_grace` left. Children that
        never ran or have already ended are no error. Returns whether all ended within `grace_secs`.
        """

        def ask() -> float:
            for child in children:
                child.terminate()
            return self.timing.hurry_grace

        ask()
        ended = self._wait(children, grace_secs, ask)
        for child in children:
            child.kill()
        return ended

    def _wait(self, children: Sequence[Child], seconds: float, on_signal: Callable[[], float]) -> bool:
        deadline = time.monotonic() + seconds
        while True:
            if self._signal_came():
                deadline = min(deadline, time.monotonic() + on_signal())
            for _ in self._ends(children):
                pass
            if not any(child in self._watched for child in children):
                return True
            if time.monotonic() >= deadline:
                return False
            time.sleep(self.timing.poll)

    def _signal_came(self) -> bool:
        """Whether signals have arrived since the last call; several count as one."""
        before, self._seen = self._seen, self.stop.count
        return self._seen > before

    def _ends(self, children: Sequence[Child]) -> Iterator[ChildEnded]:
        for child in list(children):
            code = child.poll() if child in self._watched else None
            if code is not None:
                self._watched.remove(child)
                yield ChildEnded(child, code)

    def _restart_those_due(self) -> Iterator[ChildEnded]:
        for child, (due, sentence) in list(self._due.items()):
            if time.monotonic() >= due:
                del self._due[child]
                # Logged only now: if a dying learner took the child down, its own error must come last.
                self._say(sentence)
                try:
                    self.start(child)
                except Exception as error:  # No error here is a reason to end the other processes.
                    yield ChildEnded(child, 1, str(error))


def shell_code(code: int) -> int:
    """A child's exit code as a shell reports it: 128 plus the signal's number if one ended it."""
    return exit_code(-code) if code < 0 else code


def describe_exit(code: int) -> str:
    """An exit code in words: `ended with exit code 3`, or `was ended by SIGKILL`."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"was ended by {name}"


def describe_end(child: Child, code: int) -> str:
    """A child's end in words, with the last line of its output and its log; see `ChildEnded`."""
    line, log = child.last_line(), f"its log is {child.log}" if child.log else ""
    if code < 0 and not line.startswith("seed_rl: "):
        line = ""  # It could not give a reason.
    details = "; ".join(filter(None, (line, log)))
    end = "ended before training was complete" if child.ended_early else describe_exit(code)
    return f"{child.name} {end}" + (f" ({details})" if details else "")
