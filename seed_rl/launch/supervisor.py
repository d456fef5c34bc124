"""Runs a learner and its actors until the learner ends, and leaves nothing running.

* An actor that crashes is restarted, with growing delays if it keeps crashing. A failed start counts as a
  crash.
* An actor that exits with the code for a usage error (2), for instance because the learner refused it, ends
  the run.
* When the learner dies, the run ends with the learner's exit code, and its own error is the last output.
* Of several learner hosts, each notices by itself that another one is lost. All of them have ended when the
  run ends, and `loss` says which one failed first, so that all can be started again (`launch.lives`).
* Ctrl-C, SIGTERM and SIGHUP are passed to the learners as one SIGTERM, which makes them write a checkpoint.
  The exit code is then the signal's (130, 143, 129), or 0 if training was already complete.
* An error in the supervisor itself ends the run as a signal does, and is then raised.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from seed_rl.flags.errors import USAGE_EXIT_CODE
from seed_rl.launch.exits import describe_exit, shell_code
from seed_rl.launch.restarts import Restarts, Timing, restart
from seed_rl.launch.watch import Ended, Event, Process, Signalled, Tick, Watch, at_once
from seed_rl.messages import say
from seed_rl.signals import STOP_CODES, STOP_SIGNALS, StopSignals

# Exit codes of a learner after which it is not started again: complete, a wrong flag, stopped on request.
_FINAL = (0, USAGE_EXIT_CODE, *STOP_CODES)


class Loss(NamedTuple):
    """One of several learners has failed, and the others have ended because of that.

    Attributes:
      learner: the one that failed first.
      code: its exit code; -N if signal N ended it.
      seconds: how long it had run.
    """

    learner: Process
    code: int
    seconds: float


class Supervisor:
    """Supervises the learner, or several, and the actors; needs the main thread, for the signals.

    Attributes:
      loss: the failure of one of several learners that ended the run, if it may resume from the last
        checkpoint; else None.
    """

    def __init__(
        self,
        learners: Sequence[Process],
        actors: Sequence[Process],
        timing: Timing | None = None,
        say: Callable[[str], None] = say,
    ):
        """Starts nothing yet.

        Args:
          learners: one per learner host, the one that keeps the run directory first.
          actors: all actors.
          timing: the intervals and time limits.
          say: shows a sentence to the user.
        """
        self.loss: Loss | None = None
        self._learners = list(learners)
        self._first = self._learners[0]
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
                for child in (*self._learners, *self._actors):
                    self._watch.start(child)
                return self._supervise()
            except BaseException:
                self._say("stopping because of an error; the learner writes a checkpoint.")
                self._end_learners()
                raise
            finally:
                for child in (*self._learners, *self._actors):
                    child.kill()

    def _supervise(self) -> int:
        return next(code for event in self._watch if (code := self._react(event)) is not None)

    def _react(self, event: Event) -> int | None:
        """Handles an event; returns the exit code of the run once it is known."""
        match event:
            case Signalled(number):
                ended = self._ended_learner()
                return self._stop(number) if ended is None else self._learner_ended(ended)
            case Ended(child, code) if child in self._learners:
                # Another one than the first ends with 0 when training is complete; the first one is saving.
                return self._learner_ended(child) if child is self._first or code != 0 else None
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

    def _ended_learner(self) -> Process | None:
        """A learner whose end is that of the run; None if there is none."""
        codes = [learner.poll() for learner in self._learners]
        if codes[0] is not None:
            return self._first
        failed = (learner for learner, code in zip(self._learners, codes, strict=True) if code)
        return next(failed, None)

    def _learner_ended(self, learner: Process) -> int:
        """Ends the run after a learner has ended."""
        seconds = learner.seconds
        if len(self._learners) > 1:
            learner = self._let_all_learners_end(learner)
        code = 0 if self._first.poll() == 0 else learner.poll()
        assert code is not None
        if len(self._learners) > 1 and code not in _FINAL and not self.asked_to_stop:
            self.loss = Loss(learner, code, seconds)
        if code == 0:
            self._watch.wait(self._actors, self._timing.finish_grace, on_signal=at_once)
        self._end_actors()
        if self.loss is None and code < 0:  # Killed: it could not report anything itself.
            self._say(f"{learner.name} {describe_exit(code)}.")
        elif code == USAGE_EXIT_CODE and self._first.poll() != USAGE_EXIT_CODE:
            self._blame(learner)
        return shell_code(code)

    def _first_to_fall(self, ended: Process) -> Process:
        """The learner whose end is the reason for that of the others, given one that has ended.

        Those that notice the loss of one that was killed may be seen to end before it.
        """
        if ended.poll() in _FINAL:
            return ended
        return next((learner for learner in self._learners if (learner.poll() or 0) < 0), ended)

    def _let_all_learners_end(self, ended: Process) -> Process:
        """Waits for the other learners after one has ended, then ends those that are left.

        Returns the one whose end is the reason for that of the others.

        They end by themselves: they know of the loss, or all have agreed to stop. But while they wait for one
        that never came, they would wait for as long as --host_timeout_secs.
        """
        timing = self._timing
        grace = timing.verdict_grace if ended.poll() == USAGE_EXIT_CODE else timing.checkpoint_grace
        self._watch.wait(self._learners, grace, on_signal=at_once, signals_seen=0)
        reason = self._first_to_fall(ended)  # Before any of them is killed here.
        rest = timing.checkpoint_grace if self.asked_to_stop else timing.terminate_grace
        self._watch.end(self._learners, rest, on_signal=at_once)
        return reason

    def _given_up(self, actor: Process) -> int:
        """Ends the run after an actor gave up; if the learner has ended, too, its exit code counts."""
        self._watch.wait(self._learners, self._timing.verdict_grace, on_signal=at_once)
        ended = self._ended_learner()
        if ended is not None:
            return self._learner_ended(ended)
        if self._signals.count:
            return self._stop(self._signals.count)
        self._end_learners()
        self._end_actors()
        self._blame(actor)
        return USAGE_EXIT_CODE

    def _blame(self, child: Process) -> None:
        """Reports the child that ended the run, with the reason in the last line of its log."""
        reason = child.last_line().removeprefix("seed_rl: error: ") or "it gave no reason."
        self._say(f"error: {child.name} ended the run (its log is {child.log}): {reason}")

    def _stop(self, signals: int) -> int:
        """Stops the run after this number of signals: first the learner, then the actors."""
        self._say("stopping; the learner writes a checkpoint (Ctrl-C again ends everything at once).")
        if self._end_learners(signals):
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
        code = self._first.poll()
        assert code is not None
        if code in STOP_CODES:
            self._say("stopped; the same command resumes it.")
            return self._signals.exit_code
        if -code in STOP_SIGNALS:
            self._say("stopped before the learner was ready; there was nothing to save.")
            return self._signals.exit_code
        return shell_code(code)

    def _end_learners(self, signals_seen: int | None = None) -> bool:
        """Lets learners write a checkpoint; returns whether they ended in time, before a further signal."""
        grace = self._timing.checkpoint_grace
        return self._watch.end(self._learners, grace, on_signal=at_once, signals_seen=signals_seen)

    def _end_actors(self) -> None:
        self._watch.end(self._actors, self._timing.terminate_grace, on_signal=at_once)
