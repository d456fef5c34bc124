"""The one supervisor: starts children, yields events, starts children again, and ends them; gateways."""

import contextlib
import dataclasses
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from seed_rl.launch.child import ACTOR_ENV, Child
from seed_rl.messages import say, warn
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
        child = self.child
        if self.error:
            return f"{child.name} could not be started ({self.error})"
        line, log = child.last_line(), f"its log is {child.log}" if child.log else ""
        if self.code < 0 and not line.startswith("seed_rl: "):
            line = ""  # It could not give a reason.
        details = "; ".join(filter(None, (line, log)))
        end = "ended before training was complete" if child.ended_early else describe_exit(self.code)
        return f"{child.name} {end}" + (f" ({details})" if details else "")


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

    def wait(self, children: Sequence[Child], seconds: float, asks: bool = False) -> bool:
        """Waits until children have ended, a further signal arrives, or the time is over.

        Those that are not watched count as ended. If it `asks`, children get another SIGTERM at a further
        signal, and have only `timing.hurry_grace` left. Returns whether all have ended.
        """
        deadline = time.monotonic() + seconds
        while True:
            if self._signal_came():
                for child in children if asks else ():
                    child.terminate()
                deadline = min(deadline, time.monotonic() + asks * self.timing.hurry_grace)
            for _ in self._ends(children):
                pass
            if not any(child in self._watched for child in children):
                return True
            if time.monotonic() >= deadline:
                return False
            time.sleep(self.timing.poll)

    def end(self, children: Sequence[Child], grace_secs: float) -> bool:
        """Sends children SIGTERM, waits as `wait`, and kills those that are left and everything they started.

        Children that never ran or have already ended are no error. Returns whether all ended in time.
        """
        for child in children:
            child.terminate()
        ended = self.wait(children, grace_secs, asks=True)
        for child in children:
            child.kill()
        return ended

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


# Gateways pass on the end of training to their actors. Actors wait for them, so they are soon started again.
_GATEWAY_TIMING = Timing(terminate_grace=5.0, longest_backoff=2.0)


def gateway_commands(
    addresses: Sequence[str], learner_address: str, security: Mapping[str, Any]
) -> list[list[str]]:
    """The command of each gateway at `addresses`, with the learner's settings of its connections."""
    flags = [f"--{name}={value}" for name, value in security.items() if value is not None]
    main = [sys.executable, "-m", "seed_rl", "gateway", f"--learner_address={learner_address}", *flags]
    return [[*main, f"--server_address={address}"] for address in addresses]


class Gateways:
    """Starts gateways, and starts each again that ends, until `stop`.

    The system ends a gateway with the thread that started it, so that is one which lives as long as they do.
    """

    def __init__(self, commands: Sequence[Sequence[str]], timing: Timing = _GATEWAY_TIMING):
        self._children = [Child(f"gateway {i}", command, env=ACTOR_ENV) for i, command in enumerate(commands)]
        self._running: list[bool] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._keep, args=(timing,), name="gateways", daemon=True)
        self._thread.start()

    @property
    def pids(self) -> list[int]:
        """Process ids of those that have started."""
        return [child.pid for child in self._children if child.pid is not None]

    def live(self, addresses: Sequence[str]) -> list[str]:
        """Those of the addresses, in the order of the commands, whose gateways run."""
        return [address for address, runs in zip(addresses, self._running, strict=False) if runs]

    def stop(self) -> None:
        """Ends them; a second call does nothing."""
        self._stopping.set()
        self._thread.join()

    def _keep(self, timing: Timing) -> None:
        watch = Watch(timing=timing, say=warn)
        for child in self._children:
            watch.start(child)
        for event in watch:
            self._running = [child.running for child in self._children]
            if self._stopping.is_set():
                break
            if isinstance(event, ChildEnded):
                watch.restart(event)
        watch.end(self._children, timing.terminate_grace)
