"""The study of a sweep: Optuna's journal in its directory, with one Optuna trial for each run.

An Optuna trial cannot change once it has ended. So each run, one seed of a trial of the sweep, is an Optuna
trial with the attributes `trial` and `seed`: more seeds are more of them, and so is a failed run that is
retried, of which the newest counts. `Trials.table` joins the runs of each trial.
"""

import csv
import io
import itertools
import os
import statistics
from pathlib import Path
from typing import Any

import optuna
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock
from optuna.trial import FrozenTrial, TrialState

from seed_rl.files import write_atomically
from seed_rl.messages import warn
from seed_rl.metrics.curves import curve, periods_so_far
from seed_rl.runs.layout import SWEEP_JOURNAL, RunDirectory
from seed_rl.runs.record import differences, is_directory
from seed_rl.sweeps.trials import Sweep, SweepRun, distributions, draw

_NAME = "sweep"
_IDENTITY = "identity"
_CODE = "exit_code"
# A return is reported to the pruner at each twentieth of a run. No trial is pruned in its first quarter, or
# before five others are complete.
_REPORTS, _WARMUP, _LEAST_OTHERS = 20, 5, 5
# With fewer complete trials, the importance of flags is mostly noise.
_ENOUGH_TRIALS = 10


def load(directory: Path, identity: dict[str, Any], writes: bool = True) -> optuna.Study:
    """The study in a directory, or a new one; without `writes`, nothing changes, and a new one is in memory.

    `identity` has the settings that must not change in the directory, as JSON values. With `writes`, the
    directory's lock must be held.

    Raises:
      ValueError: the directory cannot be used, or belongs to another sweep; the message is one sentence.
    """
    path = directory / SWEEP_JOURNAL
    is_there = is_directory(directory) and path.exists()
    if not is_there and (RunDirectory(directory).record.exists() or any(directory.glob("trial_*"))):
        raise ValueError(f"--logdir={directory} contains runs but no {path.name}; use another.")
    try:
        study = _open(path, identity, writes)
        _newest(study)  # Runs of an earlier version have no seed.
    except OSError as error:
        raise ValueError(f"{path} cannot be used ({error.strerror}); use another --logdir.") from None
    except Exception as error:  # Optuna relies on what it wrote itself, so damage can raise anything.
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(
            f"{path} cannot be read ({reason}); it is damaged, or of another version of seed_rl: put back a "
            "copy of it, or use another --logdir."
        ) from None
    if found := differences(study.user_attrs.get(_IDENTITY, identity), identity):
        raise ValueError(
            f"--logdir={directory} belongs to another sweep ({'; '.join(found)}); use another --logdir, or "
            "the space, seed and flags of that sweep."
        )
    return study


def _open(path: Path, identity: dict[str, Any], writes: bool) -> optuna.Study:
    content = path.read_bytes() if path.exists() else b""
    complete = content.rfind(b"\n") + 1
    if not complete and not writes:
        return optuna.create_study(direction="maximize")
    if complete < len(content) and writes:  # After a full disk, say; Optuna would append to that line.
        warn(f"{path}: the last line is incomplete and removed.")
        os.truncate(path, complete)
    # The other kind of lock is a symbolic link, which some file systems do not have.
    backend = JournalFileBackend(str(path), JournalFileOpenLock(str(path)))
    storage = optuna.storages.JournalStorage(backend)
    if complete:
        study = optuna.load_study(study_name=_NAME, storage=storage)
    else:
        study = optuna.create_study(study_name=_NAME, storage=storage, direction="maximize")
    if writes and _IDENTITY not in study.user_attrs:
        study.set_user_attr(_IDENTITY, identity)
    return study


def _newest(study: optuna.Study) -> dict[tuple[int, int], FrozenTrial]:
    """The newest Optuna trial of each trial and seed of the sweep."""
    trials = study.get_trials(deepcopy=False)
    return {(run.user_attrs["trial"], run.user_attrs["seed"]): run for run in trials}


def make_pruner(name: str, total_frames: int) -> optuna.pruners.BasePruner:
    """The pruner `none` or `median` for runs of this many environment frames."""
    if name == "none":
        return optuna.pruners.NopPruner()
    # Only the first run of a trial reports returns, so at each step there is one return per trial.
    warmup = _WARMUP * max(1, total_frames // _REPORTS)
    return optuna.pruners.MedianPruner(n_startup_trials=0, n_warmup_steps=warmup, n_min_trials=_LEAST_OTHERS)


class Trials:
    """The trials that a command requests, each with runs of the seeds from 1 to `seeds`.

    A run is named by the pair of its trial and its seed.

    Attributes:
      trials: their number.
      seeds: the number of runs per trial.
    """

    def __init__(
        self, study: optuna.Study, sweep: Sweep, trials: int, seeds: int, sampler: str, retry_failed: bool
    ):
        """Writes nothing yet; `retry_failed` takes runs that have failed so far for runs that are left."""
        self.trials = trials
        self.seeds = seeds
        self._study = study
        self._sweep = sweep
        self._sampler = sampler
        self._again = {pair for pair, run in self.runs().items() if retry_failed and _has_failed(run)}

    def runs(self) -> dict[tuple[int, int], FrozenTrial]:
        """The newest Optuna trial of each run, in ascending order; without unfinished ones of other seeds."""
        found = sorted(_newest(self._study).items(), key=lambda item: item[0])
        return {pair: run for pair, run in found if run.state.is_finished() or pair[1] <= self.seeds}

    def left(self) -> list[tuple[int, int]]:
        """The runs that have not ended, in the order in which they start."""
        runs = self.runs()
        ended = {pair for pair, run in runs.items() if run.state.is_finished()} - self._again
        pruned = {number for (number, _), run in runs.items() if run.state == TrialState.PRUNED}
        asked = itertools.product(range(1, self.trials + 1), range(1, self.seeds + 1))
        return [pair for pair in asked if pair not in ended and pair[0] not in pruned]

    def failed(self) -> int:
        """The number of runs that failed."""
        return sum(_has_failed(run) for (number, _), run in self.runs().items() if number <= self.trials)

    def is_pruned(self, run: SweepRun) -> bool:
        """Whether a run that was started has ended with its trial."""
        return self.runs()[run.trial, run.seed].state == TrialState.PRUNED

    def run(self, number: int, seed: int) -> SweepRun:
        """A run with the values of its trial, which are drawn if it is new."""
        sweep, known = self._sweep, (run.params for (n, _), run in self.runs().items() if n == number)
        values = next(known, None) or draw(
            sweep.space, sweep.sweep_seed, number, self._sampler, self.means().trials
        )
        return sweep.run(number, seed, values)

    def start(self, run: SweepRun) -> None:
        """Records that a run starts, unless it goes on, as one line of the journal."""
        known = self.runs().get((run.trial, run.seed))
        if known is None or known.state.is_finished():
            self._again.discard((run.trial, run.seed))
            trial = optuna.create_trial(
                state=TrialState.RUNNING,
                params=dict(run.values),
                distributions=distributions(self._sweep.space),
                user_attrs={"trial": run.trial, "seed": run.seed},
            )
            self._study.add_trial(trial)

    def report(self, run: SweepRun) -> bool:
        """Reports the returns so far of a trial's first run; returns whether the trial is to be pruned.

        Runs that the study has already are left out, and so are other runs.
        """
        trial = self.runs()[run.trial, run.seed]
        if run.seed != 1 or trial.state.is_finished():
            return False
        returns = curve(periods_so_far(run.logdir), "mean_return")
        interval, handle = max(1, run.total_frames // _REPORTS), optuna.Trial(self._study, trial._trial_id)
        last = min(int(returns.env_frames.max(initial=0)), run.total_frames)
        for step in range((trial.last_step or 0) + interval, last + 1, interval):
            if (known := returns.value[returns.env_frames <= step]).size:
                handle.report(float(known[-1]), step)
                if handle.should_prune():
                    return True
        return False

    def prune(self, number: int) -> None:
        """Ends all runs of a trial that have not ended as pruned."""
        for (other, _), run in self.runs().items():
            if other == number and not run.state.is_finished():
                self._study.tell(run.number, state=TrialState.PRUNED)

    def record(self, run: SweepRun, exit_code: int, value: float | None, words: str) -> None:
        """Records how a run ended: its exit code, its final return if it has one, and both in words."""
        trial = optuna.Trial(self._study, self.runs()[run.trial, run.seed]._trial_id)
        trial.set_user_attr(_CODE, exit_code)
        trial.set_user_attr("end", words)
        self._study.tell(trial, value, TrialState.FAIL if value is None else TrialState.COMPLETE)

    def table(self) -> list[dict[str, Any]]:
        """The rows of all trials, best first, with those without a return last.

        Trials and seeds that are not part of this session are included.

        Returns:
          For each trial, in the order of the table's columns: `trial`, its number; the values drawn, by flag;
          `final_return`, the mean over seeds; `standard_error`, that of the mean, from the sample standard
          deviation; `seeds_done` and `seeds_failed`, numbers of runs; `state`, one of complete, pruned,
          failed and running. None: it is unknown yet.
        """
        rows, left = [], {number for number, _ in self.left()}
        for number, group in itertools.groupby(self.runs().items(), key=lambda item: item[0][0]):
            runs = [run for _, run in group]
            states = {run.state for run in runs}
            returns = [run.values[0] for run in runs if run.state == TrialState.COMPLETE]
            if TrialState.PRUNED in states:
                state = "pruned"
            elif number in left or TrialState.RUNNING in states:
                state = "running"
            else:
                state = "complete" if returns else "failed"
            row = {
                "trial": number,
                **dict(sorted(runs[0].params.items())),
                "final_return": statistics.fmean(returns) if returns else None,
                "standard_error": statistics.stdev(returns) / len(returns) ** 0.5 if returns[1:] else None,
                "seeds_done": sum(run.user_attrs.get(_CODE) == 0 for run in runs),
                "seeds_failed": sum(map(_has_failed, runs)),
                "state": state,
            }
            rows.append(row)
        return sorted(rows, key=lambda row: (row["final_return"] is None, -(row["final_return"] or 0.0)))

    def write_table(self) -> list[dict[str, Any]]:
        """Writes table.csv into the sweep's directory, unless it would be empty; returns its rows."""
        rows = self.table()
        if rows:
            text = io.StringIO()
            table = csv.DictWriter(text, list(rows[0]))
            table.writeheader()
            table.writerows(rows)
            write_atomically(self._sweep.directory / "table.csv", text.getvalue())
        return rows

    def means(self) -> optuna.Study:
        """A study in memory with an Optuna trial for each complete or pruned trial, with the mean return."""
        means, ranges = optuna.create_study(direction="maximize"), distributions(self._sweep.space)
        for row in sorted(self.table(), key=lambda row: row["trial"]):
            if row["state"] in ("complete", "pruned"):
                state, values = TrialState[row["state"].upper()], {name: row[name] for name in ranges}
                value = row["final_return"] if state == TrialState.COMPLETE else None
                trial = optuna.create_trial(state=state, value=value, params=values, distributions=ranges)
                means.add_trial(trial)
        return means

    def importances(self) -> dict[str, float]:
        """Importance of each flag for the difference between good and other trials; they add up to 1.

        They are Optuna's (PED-ANOVA; Watanabe et al., 2023). Empty for fewer than ten complete trials.
        """
        means = self.means()
        if len(means.get_trials(states=[TrialState.COMPLETE])) < _ENOUGH_TRIALS:
            return {}
        return optuna.importance.get_param_importances(means)


def short(cell: Any) -> str:
    """A value with at most four significant digits; '' for None."""
    if cell is None:
        return ""
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)


def _has_failed(run: FrozenTrial) -> bool:
    """Whether a run ended before its last frame; one without a return is a failure for Optuna only."""
    return run.state == TrialState.FAIL and run.user_attrs.get(_CODE) != 0
