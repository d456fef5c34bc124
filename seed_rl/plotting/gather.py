"""Finds and reads runs in directories, and groups them with the metric to plot."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from seed_rl.plotting.groups import Group, Run, group_records
from seed_rl.runs import record
from seed_rl.runs.curves import curve, read_periods
from seed_rl.runs.layout import SWEEP_JOURNAL, RunDirectory
from seed_rl.runs.record import RunRecord

_DEPTH = 3
_POSITIONS = ("env_frames", "seconds")  # These say when a period was, rather than how it went.
_RETURNS = ("mean_evaluation_return", "mean_return")

Periods = list[dict[str, Any]]


class Found(NamedTuple):
    """The runs of some paths.

    Attributes:
      groups: at least one.
      skipped: why each of the other runs cannot be drawn, one sentence that names it.
    """

    groups: list[Group]
    skipped: list[str]

    @property
    def directories(self) -> list[Path]:
        """The directories of all runs in the groups."""
        return [Path(run.record.logdir) for group in self.groups for run in group.runs]


def find_runs(paths: Iterable[str | Path]) -> dict[Path, str]:
    """The run directories among the paths, or up to three levels below them; each once.

    Returns:
      For each one the directory of its sweep; else the path in which it was found, or "" if it is that path.

    Raises:
      ValueError: a path is no directory, or contains no run; the message is one sentence.
    """
    found: dict[str, tuple[Path, str]] = {}
    for path in map(Path, paths):
        try:
            runs = sorted(_runs_within(path, _DEPTH))
            is_directory = path.is_dir()
        except OSError as error:
            raise ValueError(f"{path} cannot be read ({error.strerror}); name another directory.") from None
        if not is_directory:
            raise ValueError(f"{path} is not a directory; name the --logdir of a run.")
        if not runs:
            name = RunDirectory(path).record.name
            raise ValueError(
                f"{path} contains no {name}, and neither does any directory within it; pass the --logdir of "
                "a run, or a directory of runs."
            )
        for run in runs:
            source = _sweep_of(run) or ("" if run == path else str(path))
            found.setdefault(os.path.realpath(run), (run, source))
    return dict(found.values())


def _sweep_of(run: Path) -> str:
    """The directory SWEEP of a run in SWEEP/TRIAL/SEED; empty if there is no sweep's journal in it."""
    sweep = run.parent.parent
    return str(sweep) if (sweep / SWEEP_JOURNAL).is_file() else ""


def gather(paths: Iterable[str | Path], metric: str | None = None) -> Found:
    """Reads the runs of all paths (see `find_runs`), groups them, and picks the metric to plot.

    If `metric` is None, it is the return: in evaluation if all runs of the group report it, else in training.
    Runs that have no such metric, have not begun or cannot be read are skipped.

    Raises:
      ValueError: a path contains no run, no run has any values, or there is no such metric; the message is
        one sentence.
    """
    sources = find_runs(paths)
    records, periods, skipped = _read_all(sources)
    names = sorted({name for some in periods.values() for p in some for name in p} - {*_POSITIONS})
    if metric is not None and names and metric not in names:
        raise ValueError(
            f"--metric={metric} is not a metric of these runs; choose one of: {', '.join(names)}."
        )
    with_values: dict[Path, set[str]] = {}
    for run in records:
        mine = {name for period in periods[run.logdir] for name in period}
        if mine.isdisjoint(_RETURNS if metric is None else (metric,)):
            missing = f"no {metric}" if metric else "no return yet, since no episode has ended"
            skipped.append(f"{run.logdir} has {missing}.")
        else:
            with_values[run.logdir] = mine
    usable = [run for run in records if run.logdir in with_values]
    if not usable:
        raise ValueError(_nothing(skipped))
    groups = []
    for (task, variant), alike in group_records(usable).items():
        is_evaluated = all(_RETURNS[0] in with_values[run.logdir] for run in alike)
        runs = []
        for run in alike:
            is_trained = _RETURNS[1] in with_values[run.logdir]
            name = metric or (_RETURNS[0] if is_evaluated or not is_trained else _RETURNS[1])
            runs.append(Run(run, name, curve(periods[run.logdir], name), sources[run.logdir]))
        groups.append(Group(task, variant, tuple(runs)))
    return Found(groups, skipped)


def _runs_within(path: Path, depth: int) -> Iterable[Path]:
    """The run directories at or below a path. Runs contain no other runs, so they are not searched."""
    if RunDirectory(path).record.is_file():
        yield path
    elif depth and path.is_dir() and os.access(path, os.R_OK | os.X_OK):
        for child in path.iterdir():
            if child.is_dir():
                yield from _runs_within(child, depth - 1)


def _read_all(directories: Iterable[Path]) -> tuple[list[RunRecord], dict[Path, Periods], list[str]]:
    """The records that can be read, their periods by directory, and why the other runs are skipped."""
    records: list[RunRecord] = []
    periods: dict[Path, Periods] = {}
    skipped: list[str] = []
    for directory in directories:
        try:
            run = record.read(str(directory))
            periods[directory] = read_periods(directory)
            records.append(run)
        except ValueError as error:
            skipped.append(str(error))
    return records, periods, skipped


def _nothing(skipped: list[str]) -> str:
    """The error if no run is left: one reason stands for all others."""
    if len(skipped) == 1:
        return f"There is nothing to show: {skipped[0]}"
    return f"None of these {len(skipped)} runs has anything to show; the first one: {skipped[0]}"
