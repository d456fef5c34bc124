"""Runs a learner and its actors until the learner ends, and leaves nothing running.

* An actor that crashes is restarted, with growing delays if it keeps crashing. A failed start counts as a
  crash.
* An actor that exits with the code for a usage error (2), for instance because the learner refused it, ends
  the run.
* When the learner dies, the run ends with the learner's exit code, and its own error is the last output.
* Ctrl-C, SIGTERM and SIGHUP are passed to the learner as one SIGTERM, which makes it write a checkpoint. The
  exit code is then the signal's (130, 143, 129), or 0 if training was already complete.
* An error in the supervisor itself ends the run as a signal does, and is then raised.
"""

import dataclasses
import signal
import time
from collections.abc import Callable, Sequence

from seed_rl.flags.errors import USAGE_EXIT_CODE
from seed_rl.launch.watch import POLL_SECS, Ended, Event, Process, Signalled, Tick, Watch, at_once
from seed_rl.messages import say
from seed_rl.signals import SAME_SIGNAL_SECS, StopSignals, exit_code


@dataclasses.dataclass(frozen=True)
class Timing:
    """The supervisor's intervals and time limits, in seconds.

    Attributes:
      poll: interval between two checks of the processes.
      checkpoint_grace: how long the learner may take to write its checkpoint after a signal.
      finish_grace: how long actors may take to exit on their own after the learner has exited with 0.
      terminate_grace: how long actors may take to exit after SIGTERM.
      verdict_grace: when an actor gives up, how long to wait in case the learner is ending, too.
      first_backoff: delay before the first restart of an actor; it doubles with each restart.
      longest_backoff: upper limit of the delay.
      same_signal: signals closer together than this count as one.
      healthy_after: if an actor ran for this long, its next delay is the first one again.
    """

    poll: float = POLL_SECS
    checkpoint_grace: float = 60.0
    finish_grace: float = 10.0
    terminate_grace: float = 5.0
    verdict_grace: float = 1.0
    first_backoff: float = 1.0
    longest_backoff: float = 30.0
    same_signal: float = SAME_SIGNAL_SECS
    healthy_after: float = 60.0


class Restarts:
    """Schedules the restarts of a child that crashes.

    Attributes:
      total: restarts scheduled so far.
    """

    def __init__(self, timing: Timing):
        self.total = 0
        self._timing = timing
        self._next_backoff = timing.first_backoff
        self._due: float | None = None

    @property
    def pending(self) -> bool:
        """Whether a restart is scheduled and not yet taken."""
        return self._due is not None

    def order(self, lifetime: float) -> float:
        """Schedules a restart of a child that ran for `lifetime` seconds; returns the delay in seconds."""
        if lifetime >= self._timing.healthy_after:
            self._next_backoff = self._timing.first_backoff
        backoff = self._next_backoff
        self._next_backoff = min(2 * backoff, self._timing.longest_backoff)
        self._due = time.monotonic() + backoff
        self.total += 1
        return backoff

    def take(self) -> bool:
        """Returns True once, when the scheduled restart is due."""
        if self._due is None or time.monotonic() < self._due:
            return False
        self._due = None
        return True


def restart(watch: Watch, child: Process, restarts: Restarts, say: Callable[[str], None]) -> None:
    """Restarts a crashed child. A failed start counts as another crash: the next restart is scheduled."""
    try:
        watch.start(child)
    except Exception as error:  # No error here is a reason to end the other processes.
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
        self._actors = list(actors)
        self._timing = timing or Timing()
        self._restarts = {actor: Restarts(self._timing) for actor in actors}
        self._say = say
        self._signals = StopSignals(self._timing.same_signal)
        self._watch = Watch((), self._signals, self._timing.poll)

    @property
    def asked_to_stop(self) -> bool:
        """Whether a signal has arrived."""
        return self._signals.count > 0

    def run(self) -> int:
        """Starts everything, waits for the end, and returns the exit code of the run."""
        with self._signals.caught():
            try:
                for child in (self._learner, *self._actors):
                    self._watch.start(child)
                return self._supervise()
            except BaseException:
                self._say("stopping because of an error; the learner writes a checkpoint.")
                self._end_learner()
                raise
            finally:
                for child in (self._learner, *self._actors):
                    child.kill()

    def _supervise(self) -> int:
        return next(code for event in self._watch if (code := self._react(event)) is not None)

    def _react(self, event: Event) -> int | None:
        """Handles an event; returns the exit code of the run once it is known."""
        match event:
            case Signalled(number):
                code = self._learner.poll()
                return self._stop(number) if code is None else self._learner_ended(code)
            case Ended(child, code) if child is self._learner:
                return self._learner_ended(code)
            case Ended(actor, code) if code == USAGE_EXIT_CODE:  # A restart cannot help.
                return self._given_up(actor)
            case Ended(actor, code) if code != 0:  # 0: the learner reported the end of training.
                self._restarts[actor].order(actor.seconds)
            case Tick():
                self._restart_those_due()
        return None

    def _restart_those_due(self) -> None:
        for actor, restarts in self._restarts.items():
            if restarts.take():
                # Reported only now: if a dying learner took the actor down, its own error must come last.
                code, line = actor.poll(), actor.last_line()
                assert code is not None
                end = describe_exit(code) + (f" ({line})" if line else "")
                self._say(f"{actor.name} {end}; restart {restarts.total}; its log is {actor.log}.")
                restart(self._watch, actor, restarts, self._say)

    def _learner_ended(self, code: int) -> int:
        if code == 0:
            self._watch.wait(self._actors, self._timing.finish_grace, on_signal=at_once)
        self._end_actors()
        if code < 0:  # Killed: it could not report anything itself.
            self._say(f"the learner {describe_exit(code)}.")
        return shell_code(code)

    def _given_up(self, actor: Process) -> int:
        """Ends the run after an actor gave up; if the learner has ended, too, its exit code counts."""
        self._watch.wait([self._learner], self._timing.verdict_grace, on_signal=at_once)
        code = self._learner.poll()
        if code is not None:
            return self._learner_ended(code)
        if self._signals.count:
            return self._stop(self._signals.count)
        self._end_learner()
        self._end_actors()
        reason = actor.last_line().removeprefix("seed_rl: error: ") or "it gave no reason."
        self._say(f"error: {actor.name} ended the run (its log is {actor.log}): {reason}")
        return USAGE_EXIT_CODE

    def _stop(self, signals: int) -> int:
        """Stops the run after this number of signals: first the learner, then the actors."""
        self._say("stopping; the learner writes a checkpoint (Ctrl-C again ends everything at once).")
        if self._end_learner(signals):
            self._end_actors()
            return self._stopped()
        if self._signals.count > signals:
            self._say("stopping at once; the run resumes from its last complete checkpoint.")
            return self._signals.exit_code
        self._end_actors()
        self._say(
            f"the learner did not end within {self._timing.checkpoint_grace:g} s and was killed; the run "
            "resumes from its last complete checkpoint."
        )
        return 1

    def _stopped(self) -> int:
        """Reports how the learner ended on request; returns the exit code of the run."""
        code = self._learner.poll()
        assert code is not None
        if code == exit_code(signal.SIGTERM):
            self._say("stopped; the same command resumes it.")
            return self._signals.exit_code
        if code == -signal.SIGTERM:
            self._say("stopped before the learner was ready; there was nothing to save.")
            return self._signals.exit_code
        return shell_code(code)

    def _end_learner(self, signals_seen: int | None = None) -> bool:
        """Lets the learner write a checkpoint; returns whether it ended in time, before a further signal."""
        grace = self._timing.checkpoint_grace
        return self._watch.end([self._learner], grace, on_signal=at_once, signals_seen=signals_seen)

    def _end_actors(self) -> None:
        self._watch.end(self._actors, self._timing.terminate_grace, on_signal=at_once)


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
