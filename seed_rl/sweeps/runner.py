"""Executes the runs of a sweep, a few at a time; on a signal, runs save checkpoints and all processes end."""

import time

from tqdm import tqdm

from seed_rl.launch.child import Child
from seed_rl.launch.watch import ChildEnded, Signalled, Tick, Timing, Watch, describe_exit
from seed_rl.messages import say
from seed_rl.metrics.curves import final_return, read_periods, return_name
from seed_rl.runs.layout import RunDirectory
from seed_rl.signals import SAME_SIGNAL_SECS, STOP_CODES, STOP_SIGNALS
from seed_rl.sweeps.study import Trials, short
from seed_rl.sweeps.trials import SweepRun

# Runs take longer to end than the learner and actors that their launchers end. A second signal is passed on
# to the launchers, which must not take it for a part of the first one.
_TIMING = Timing(checkpoint_grace=90.0, hurry_grace=5.0, same_signal=1.5 * SAME_SIGNAL_SECS)

# The time between two readings of the returns of the runs.
_LOOK_SECS = 2.0

# Exit codes of a launcher that was stopped, whether or not it could handle the signal.
_STOPPED = (*STOP_CODES, *(-signum for signum in STOP_SIGNALS))


class Runner:
    """Executes the runs of a sweep that are left; must be used in the main thread, to handle signals."""

    def __init__(self, trials: Trials, parallel: int):
        """Starts nothing; at most `parallel` runs train at the same time."""
        self._trials = trials
        self._parallel = parallel
        self._began = time.monotonic()
        self._looked = 0.0
        self._running: dict[Child, SweepRun] = {}
        self._started: set[tuple[int, int]] = set()  # A run is started once, even if it is stopped.
        self._ended = 0
        self._watch = Watch(timing=_TIMING)

    def run(self) -> int:
        """Executes all remaining runs; returns 0, or the exit code of the signal that cut this short."""
        with self._watch.running():
            for event in self._watch:
                match event:
                    case Signalled():
                        self._stop()
                        return self._watch.stop.exit_code
                    case ChildEnded(child, code):
                        self._record(child, code)
                    case Tick():
                        self._look()
                        self._start_some()
                        if not self._running:
                            break
        return 0

    def _waiting(self) -> list[tuple[int, int]]:
        """The trials and seeds of the runs that are still to be started."""
        return [pair for pair in self._trials.left() if pair not in self._started]

    def _start_some(self) -> None:
        while len(self._running) < self._parallel and (waiting := self._waiting()):
            self._started.add(waiting[0])
            run = self._trials.run(*waiting[0])
            self._trials.start(run)
            run.log.parent.mkdir(parents=True, exist_ok=True)
            verb = "resumes" if RunDirectory(run.logdir).record.exists() else "starts"
            drawn = ", ".join(f"{name}={short(value)}" for name, value in run.values.items())
            child = Child(
                f"trial {run.trial} of {self._trials.trials}, seed {run.seed}", run.command, run.log
            )
            self._watch.start(child)
            self._running[child] = run
            say(f"{child.name} {verb} with {drawn}; its log is {run.log}.")

    def _look(self) -> None:
        """Reports the returns so far, and ends the runs of trials that are to be pruned."""
        now = time.monotonic()
        if now < self._looked + _LOOK_SECS:
            return
        self._looked = now
        for run in list(self._running.values()):
            if self._trials.report(run):
                self._trials.prune(run.trial)
                for child in [child for child, other in self._running.items() if other.trial == run.trial]:
                    child.terminate()

    def _record(self, child: Child, code: int) -> None:
        child.kill()
        run = self._running.pop(child)
        end = judge(run, code, child.last_line())
        words = "pruned"
        if not self._trials.is_pruned(run):
            if end is None:
                if not self._watch.stop.is_set():
                    say(f"{child.name} was stopped from outside; the same command resumes it.")
                return
            if code and self._watch.stop.is_set():
                return  # The exit code of a launcher that a signal stopped is not a failure of the run.
            value, words = end
            self._trials.report(run)
            self._trials.record(run, code, value, words)
        self._ended += 1
        self._trials.write_table()
        say(f"{child.name}: {words} ({self._progress()})")

    def _stop(self) -> None:
        """Signals every run to end, and records those that are complete."""
        if self._running:
            count = f"{len(self._running)} run" + ("s" if len(self._running) > 1 else "")
            say(f"stopping; {count} may write a checkpoint (Ctrl-C again ends everything at once).")
        self._watch.end(list(self._running), self._watch.timing.checkpoint_grace)
        for child in list(self._running):
            self._record(child, child.poll() or 0)
        say("stopped; the same command resumes it.")

    def _progress(self) -> str:
        total = self._trials.trials * self._trials.seeds
        unfinished = len(self._waiting()) + len(self._running)
        words = [f"{total - len(self._trials.left())} of {total} runs done"]
        if failed := self._trials.failed():
            words.append(f"{failed} failed")
        if unfinished:
            # At the rate of this session.
            left = (time.monotonic() - self._began) / self._ended * unfinished
            words.append(f"about {tqdm.format_interval(left)} left")
        return ", ".join(words)


def judge(run: SweepRun, exit_code: int, last_line: str) -> tuple[float | None, str] | None:
    """The final return of a run whose process has ended, and its end in words; None if it can resume.

    A launcher that was stopped with a checkpoint exits with the signal's code. A run is complete only if its
    launcher exits with 0 and all of its environment frames have been played. The final return is the mean
    over the last tenth of the run's periods; None if no episode ended, or if it failed.
    """
    if exit_code in _STOPPED:
        return None
    if exit_code:
        line = last_line.removeprefix("seed_rl: error: ")
        reason = f" ({line})" if line else ""
        return None, f"{describe_exit(exit_code)}{reason}; its log is {run.log}"
    try:
        periods = read_periods(run.logdir)
    except ValueError:
        return None
    frames = int(periods[-1]["env_frames"])
    if frames < run.total_frames:
        return None
    found = final_return(periods)
    if found is None:
        return None, f"no episode ended within {frames:,} frames"
    return found, f"{return_name(periods).replace('_', ' ')} {found:.4g} after {frames:,} frames"
