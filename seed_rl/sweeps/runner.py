"""Executes the runs of a sweep, a few at a time; on a signal, runs save checkpoints and all processes end."""

from collections.abc import Callable, Sequence

from seed_rl.launch.child import Child
from seed_rl.launch.watch import Ended, Event, Signalled, Tick, Timing, Watch, describe_exit
from seed_rl.messages import say
from seed_rl.runs.layout import RunDirectory
from seed_rl.signals import SAME_SIGNAL_SECS
from seed_rl.sweeps import outcome as outcomes
from seed_rl.sweeps.outcome import Outcome
from seed_rl.sweeps.trials import Run, Sweep

# Runs take longer to end than the learner and actors that their launchers end. A second signal is passed on
# to the launchers, which must not take it for a part of the first one.
_TIMING = Timing(checkpoint_grace=90.0, hurry_grace=5.0, same_signal=1.5 * SAME_SIGNAL_SECS)


class Runner:
    """Executes the remaining runs of a sweep; must be used in the main thread, to handle signals.

    Attributes:
      ended: the known outcomes by trial and seed, including those of earlier sessions.
    """

    def __init__(
        self,
        sweep: Sweep,
        parallel: int,
        retry_failed: bool = False,
        on_end: Callable[[], object] = lambda: None,
        timing: Timing = _TIMING,
        say: Callable[[str], object] = say,
    ):
        """Reads the outcomes of earlier sessions; starts nothing.

        At most `parallel` runs train at the same time. `on_end` is called after every run, once its outcome
        is recorded; `say` prints a line.

        Raises:
          ValueError: an outcome cannot be read; the message is one sentence.
        """
        self._sweep = sweep
        self._parallel = parallel
        self._on_end = on_end
        self._say = say
        known = ((run, outcomes.read(run.outcome)) for run in sweep.runs)
        self.ended: dict[tuple[int, int], Outcome] = {
            (run.trial, run.seed): found
            for run, found in known
            if found and not (found.failed and retry_failed)
        }
        self._waiting = self.left()
        self._running: dict[Child, Run] = {}
        self._durations: list[float] = []
        self._is_stopping = False
        self._watch = Watch(timing=timing, say=say)

    def left(self) -> Sequence[Run]:
        """The runs that have not ended, in order."""
        return [run for run in self._sweep.runs if (run.trial, run.seed) not in self.ended]

    def run(self) -> int:
        """Executes all remaining runs; returns 0, or the exit code of the signal that cut this short."""
        self._waiting = list(self.left())
        with self._watch.running():
            return next(code for event in self._watch if (code := self._react(event)) is not None)

    def _react(self, event: Event) -> int | None:
        """Handles an event; returns the exit code once it is known."""
        match event:
            case Signalled():
                self._stop()
                return self._watch.stop.exit_code
            case Ended(child, code):
                self._record(child, code)
            case Tick():
                self._start_some()
                return None if self._running else 0
        return None

    def _start_some(self) -> None:
        while self._waiting and len(self._running) < self._parallel:
            run, *self._waiting = self._waiting
            run.log.parent.mkdir(parents=True, exist_ok=True)
            run.outcome.unlink(missing_ok=True)
            verb = "resumes" if RunDirectory(run.logdir).record.exists() else "starts"
            values = ", ".join(f"{name}={value}" for name, value in self._sweep.values(run.trial).items())
            name = f"trial {run.trial} of {self._sweep.trials}, seed {run.seed}"
            child = Child(name, run.command, run.log)
            self._watch.start(child)
            self._running[child] = run
            self._say(f"{child.name} {verb} with {values}; its log is {run.log}.")

    def _record(self, child: Child, code: int) -> None:
        child.kill()
        run = self._running.pop(child)
        found = outcomes.judge(run, code, child.last_line())
        if found is None:
            if not self._is_stopping:
                self._say(f"{child.name} was stopped from outside; the same command resumes it.")
            return
        # The exit code of a launcher that was told to stop is not a failure of the run.
        if found.failed and self._is_stopping:
            return
        outcomes.write(run.outcome, found)
        self.ended[run.trial, run.seed] = found
        self._durations.append(child.seconds)
        self._on_end()
        self._say(f"{child.name}: {describe(found, run)} ({self._progress()})")

    def _stop(self) -> None:
        """Asks every run to end, and records those that are complete."""
        self._is_stopping = True
        if self._running:
            count = f"{len(self._running)} run" + ("s" if len(self._running) > 1 else "")
            self._say(f"stopping; {count} may write a checkpoint (Ctrl-C again ends everything at once).")
        self._watch.end(list(self._running), self._watch.timing.checkpoint_grace)
        for child in list(self._running):
            code = child.poll()
            assert code is not None
            self._record(child, code)
        self._say("stopped; the same command resumes it.")

    def _progress(self) -> str:
        total = len(self._sweep.runs)
        failed = sum(found.failed for found in self.ended.values())
        words = [f"{len(self.ended)} of {total} runs done"]
        if failed:
            words.append(f"{failed} failed")
        if self._waiting or self._running:
            # From the mean duration of the runs that ended in this session.
            mean = sum(self._durations) / len(self._durations)
            rest = [max(0.0, mean - child.seconds) for child in self._running]
            left = max((mean * len(self._waiting) + sum(rest)) / self._parallel, *rest, 0.0)
            words.append(f"about {describe_seconds(left)} left")
        return ", ".join(words)


def describe(found: Outcome, run: Run) -> str:
    """How a run ended, in words."""
    if found.failed:
        line = f" ({found.last_line})" if found.last_line else ""
        return f"{describe_exit(found.exit_code)}{line}; its log is {run.log}"
    if found.final_return is None:
        return f"no episode ended within {found.env_frames:,} frames"
    name = (found.return_name or "").replace("_", " ")
    return f"{name} {found.final_return:.4g} after {found.env_frames:,} frames"


def describe_seconds(seconds: float) -> str:
    """A rounded duration: `40 s`, `12 min`, `3.5 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
