"""Executes the runs of a sweep, a few at a time; on a signal, runs save checkpoints and all processes end."""

import time
from collections.abc import Callable

from tqdm import tqdm

from seed_rl.launch.child import Child
from seed_rl.launch.watch import Ended, Event, Signalled, Tick, Timing, Watch, describe_exit
from seed_rl.messages import say
from seed_rl.runs.curves import curve, read_periods
from seed_rl.runs.layout import RunDirectory
from seed_rl.signals import SAME_SIGNAL_SECS
from seed_rl.sweeps.outcome import Outcome, judge
from seed_rl.sweeps.study import Trials
from seed_rl.sweeps.table import short
from seed_rl.sweeps.trials import Run, Sweep

# Runs take longer to end than the learner and actors that their launchers end. A second signal is passed on
# to the launchers, which must not take it for a part of the first one.
_TIMING = Timing(checkpoint_grace=90.0, hurry_grace=5.0, same_signal=1.5 * SAME_SIGNAL_SECS)

# The time between two looks at the returns of the runs.
_LOOK_SECS = 2.0


class Runner:
    """Executes the runs of a sweep that are left; must be used in the main thread, to handle signals."""

    def __init__(
        self,
        sweep: Sweep,
        trials: Trials,
        parallel: int,
        sampler: str = "random",
        on_end: Callable[[], object] = lambda: None,
        timing: Timing = _TIMING,
        say: Callable[[str], object] = say,
    ):
        """Starts nothing.

        At most `parallel` runs train at the same time. `on_end` is called after every run, once its outcome
        is recorded; `say` prints a line.
        """
        self._sweep = sweep
        self._trials = trials
        self._parallel = parallel
        self._sampler = sampler
        self._on_end = on_end
        self._looked = 0.0
        self._say = say
        self._running: dict[Child, Run] = {}
        self._stopped: set[tuple[int, int]] = set()  # From outside; not started again in this session.
        self._durations: list[float] = []
        self._is_stopping = False
        self._watch = Watch(timing=timing, say=say)

    def run(self) -> int:
        """Executes all remaining runs; returns 0, or the exit code of the signal that cut this short."""
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
                self._look()
                self._start_some()
                return None if self._running else 0
        return None

    def _waiting(self) -> list[tuple[int, int]]:
        """The trials and seeds of the runs that are still to be started."""
        busy = self._stopped | {(run.trial, run.seed) for run in self._running.values()}
        return [pair for pair in self._trials.left() if pair not in busy]

    def _start_some(self) -> None:
        while len(self._running) < self._parallel and (waiting := self._waiting()):
            trial, seed = waiting[0]
            values = self._trials.values(trial, self._sweep.space, self._sweep.sweep_seed, self._sampler)
            run = self._sweep.run(trial, seed, values)
            run.log.parent.mkdir(parents=True, exist_ok=True)
            verb = "resumes" if RunDirectory(run.logdir).record.exists() else "starts"
            drawn = ", ".join(f"{name}={short(value)}" for name, value in values.items())
            child = Child(f"trial {trial} of {self._trials.trials}, seed {seed}", run.command, run.log)
            self._watch.start(child)
            self._running[child] = run
            self._say(f"{child.name} {verb} with {drawn}; its log is {run.log}.")

    def _look(self) -> None:
        """Reports the returns so far, and ends the runs of trials that are to be pruned."""
        now = time.monotonic()
        if now < self._looked + _LOOK_SECS:
            return
        self._looked = now
        for run in list(self._running.values()):
            if self._report(run):
                self._trials.prune(run.trial)
                for child, other in self._running.items():
                    if other.trial == run.trial:
                        child.terminate()

    def _report(self, run: Run) -> bool:
        """Reports the returns of a trial's first seed, by which it is judged; whether to prune the trial."""
        if run.seed != 1 or self._trials.is_finished(run.trial):
            return False
        try:
            returns = curve(read_periods(run.logdir, warn=lambda _: None), "mean_return")
        except ValueError:  # There are none yet.
            return False
        points = list(zip(map(int, returns.env_frames), map(float, returns.value), strict=True))
        return self._trials.report(run.trial, points, run.total_frames)

    def _record(self, child: Child, code: int) -> None:
        child.kill()
        run = self._running.pop(child)
        if self._trials.is_finished(run.trial):
            self._on_end()
            self._say(f"{child.name}: pruned ({self._progress()})")
            return
        found = judge(run.logdir, run.total_frames, code, child.last_line())
        if found is None:
            if not self._is_stopping:
                self._stopped.add((run.trial, run.seed))
                self._say(f"{child.name} was stopped from outside; the same command resumes it.")
            return
        # The exit code of a launcher that was told to stop is not a failure of the run.
        if found.failed and self._is_stopping:
            return
        self._report(run)
        self._trials.record(run.trial, run.seed, found)
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
        total, waiting = self._trials.trials * self._trials.seeds, self._waiting()
        words = [f"{total - len(self._trials.left())} of {total} runs done"]
        if failed := self._trials.failed():
            words.append(f"{failed} failed")
        if self._durations and (waiting or self._running):
            # From the mean duration of the runs that ended in this session.
            mean = sum(self._durations) / len(self._durations)
            rest = [max(0.0, mean - child.seconds) for child in self._running]
            left = max((mean * len(waiting) + sum(rest)) / self._parallel, *rest, 0.0)
            words.append(f"about {tqdm.format_interval(left)} left")
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
