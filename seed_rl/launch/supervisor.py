"""Runs a learner and its actors until the learner ends, and leaves nothing running.

* An actor that crashes is started again, later and later if it keeps crashing. A start that fails is a crash.
* An actor that exits with the code for bad use (2), such as one that the learner refused, ends the run.
* A learner that dies ends the run with its exit code; its own error stays the last thing in view.
* Ctrl-C, SIGTERM and SIGHUP are passed to the learner as one SIGTERM, which makes it write a checkpoint.
* An error of the supervisor itself ends the run like a signal does, and is raised then.
"""

import dataclasses
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from seed_rl.flags.errors import INTERRUPTED_EXIT_CODE, USAGE_EXIT_CODE
from seed_rl.launch.signals import StopSignals
from seed_rl.messages import say


@dataclasses.dataclass(frozen=True)
class Timing:
    """Waits of the supervisor, all in seconds.

    Attributes:
      poll: between two looks at the processes.
      checkpoint_grace: what a learner gets to write its checkpoint after a signal.
      finish_grace: what actors get to end by themselves after the learner has ended well.
      terminate_grace: what actors get after SIGTERM.
      verdict_grace: what a dead learner gets to show, when an actor gives up.
      first_backoff: before the first restart of an actor; doubles with each restart.
      longest_backoff: where the doubling ends.
      same_signal: signals closer together count as one; a closing terminal sends several.
      healthy_after: an actor that lived this long starts again with the first back-off.
    """

    poll: float = 0.1
    checkpoint_grace: float = 60.0
    finish_grace: float = 10.0
    terminate_grace: float = 5.0
    verdict_grace: float = 1.0
    first_backoff: float = 1.0
    longest_backoff: float = 30.0
    same_signal: float = 0.5
    healthy_after: float = 60.0


class Process(Protocol):
    """What is supervised, in the words of `launch.child.Child`."""

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


class Restarts:
    """When a child that crashed is started again.

    Attributes:
      total: restarts ordered so far.
    """

    def __init__(self, timing: Timing):
        self.total = 0
        self._timing = timing
        self._next_backoff = timing.first_backoff
        self._due: float | None = None

    @property
    def pending(self) -> bool:
        """Whether a restart was ordered and not yet taken."""
        return self._due is not None

    def order(self, lifetime: float) -> float:
        """Orders a restart after a life of `lifetime` seconds; returns the back-off in seconds."""
        if lifetime >= self._timing.healthy_after:
            self._next_backoff = self._timing.first_backoff
        backoff = self._next_backoff
        self._next_backoff = min(2 * backoff, self._timing.longest_backoff)
        self._due = time.monotonic() + backoff
        self.total += 1
        return backoff

    def take(self) -> bool:
        """True once, when the ordered restart is due."""
        if self._due is None or time.monotonic() < self._due:
            return False
        self._due = None
        return True


def restart(child: Process, restarts: Restarts, say: Callable[[str], None]) -> None:
    """Starts a crashed child again. If that fails, it has crashed again: the next restart is ordered."""
    try:
        child.start()
    except Exception as error:  # Whatever it is, the others need not end for it.
        backoff = restarts.order(lifetime=0.0)
        say(f"{child.name} could not be started ({error}); the next attempt is in {backoff:g} s.")


class Supervisor:
    """Supervises one learner and its actors; needs the main thread, for the signals."""

    def __init__(
        self,
        learner: Process,
        actors: Sequence[Process],
        timing: Timing | None = None,
        say: Callable[[str], None] = say,
    ):
        self._learner = learner
        self._timing = timing or Timing()
        self._actors = [(actor, Restarts(self._timing)) for actor in actors]
        self._say = say
        self._signals = StopSignals(self._timing.same_signal)

    @property
    def asked_to_stop(self) -> bool:
        """Whether a signal has come."""
        return self._signals.count > 0

    def run(self) -> int:
        """Starts everything, waits for the end, and returns the exit code of the run."""
        with self._signals.caught():
            try:
                self._learner.start()
                for actor, _ in self._actors:
                    actor.start()
                return self._supervise()
            except BaseException:
                self._say("stopping because of an error; the learner writes a checkpoint.")
                self._end_learner()
                raise
            finally:
                for child in (self._learner, *(actor for actor, _ in self._actors)):
                    child.kill()

    def _supervise(self) -> int:
        while True:
            code = self._learner.poll()
            if code is not None:
                return self._learner_ended(code)
            if self._signals.count:
                return self._stop()
            for actor, restarts in self._actors:
                if self._tend(actor, restarts):
                    return self._given_up(actor)
            time.sleep(self._timing.poll)

    def _tend(self, actor: Process, restarts: Restarts) -> bool:
        """Looks after one actor; True if it gave up for a reason that a restart cannot heal."""
        code = actor.poll()
        if code is None or code == 0:  # It runs, or the learner told it that training is over.
            return False
        if code == USAGE_EXIT_CODE:
            return True
        if not restarts.pending:
            restarts.order(actor.seconds)
        elif restarts.take():
            # Said only now: what took the actor along may be a dying learner, whose own error is to be last.
            line = actor.last_line()
            end = describe_exit(code) + (f" ({line})" if line else "")
            self._say(f"{actor.name} {end}; restart {restarts.total}; its log is {actor.log}.")
            restart(actor, restarts, self._say)
        return False

    def _learner_ended(self, code: int) -> int:
        if code == 0:
            self._wait([actor for actor, _ in self._actors], self._timing.finish_grace)
        self._end_actors()
        if code < 0:  # Killed: it could not say anything itself.
            self._say(f"the learner {describe_exit(code)}.")
            return 128 - code
        return code

    def _given_up(self, actor: Process) -> int:
        """An actor gave up: the learner's end counts if there is one, else the actor's error ends the run."""
        self._wait([self._learner], self._timing.verdict_grace)
        code = self._learner.poll()
        if code is not None:
            return self._learner_ended(code)
        if self._signals.count:
            return self._stop()
        self._end_learner()
        self._end_actors()
        reason = actor.last_line().removeprefix("seed_rl: error: ") or "it gave no reason."
        self._say(f"error: {actor.name} ended the run (its log is {actor.log}): {reason}")
        return USAGE_EXIT_CODE

    def _stop(self) -> int:
        """After a signal: checkpoint, actors, end."""
        signals = self._signals.count
        self._say("stopping; the learner writes a checkpoint (Ctrl-C again ends everything at once).")
        self._learner.terminate()
        if self._wait([self._learner], self._timing.checkpoint_grace, signals):
            self._end_actors()
            return self._stopped()
        if self._signals.count > signals:
            self._say("stopping at once; the run goes on from its last complete checkpoint.")
            return INTERRUPTED_EXIT_CODE
        self._learner.kill()
        self._end_actors()
        self._say(
            f"the learner did not end within {self._timing.checkpoint_grace:g} s and was killed; the run "
            "goes on from its last complete checkpoint."
        )
        return 1

    def _stopped(self) -> int:
        """The learner ended on request: says how, and returns the exit code of the run."""
        code = self._learner.poll()
        assert code is not None
        if code == 0:
            self._say("stopped; the same command goes on from here.")
        elif code == -signal.SIGTERM:
            self._say("stopped before the learner was ready; there was nothing to save.")
            return INTERRUPTED_EXIT_CODE
        return 128 - code if code < 0 else code

    def _end_learner(self) -> None:
        """Lets the learner write a checkpoint; kills it when its time is up, or at a further signal."""
        self._learner.terminate()
        self._wait([self._learner], self._timing.checkpoint_grace)
        self._learner.kill()

    def _end_actors(self) -> None:
        actors = [actor for actor, _ in self._actors]
        for actor in actors:
            actor.terminate()
        self._wait(actors, self._timing.terminate_grace)
        for actor in actors:
            actor.kill()

    def _wait(self, children: Sequence[Process], seconds: float, signals: int | None = None) -> bool:
        """Whether all ended in time; a signal more than `signals` (by default those so far) cuts it short."""
        deadline = time.monotonic() + seconds
        signals = self._signals.count if signals is None else signals
        while any(child.running for child in children):
            if time.monotonic() > deadline or self._signals.count > signals:
                return False
            time.sleep(self._timing.poll)
        return True


def describe_exit(code: int) -> str:
    """What an exit code says: `ended with exit code 3`, or `was ended by SIGKILL`."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"was ended by {name}"
