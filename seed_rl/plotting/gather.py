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
        name = RunDirectory(path).record.name
        try:
            is_directory = path.is_dir()
            files = [file for depth in range(_DEPTH + 1) for file in path.glob("*/" * depth + name)]
            runs = sorted(file.parent for file in files if file.is_file())
        except OSError as error:
            raise ValueError(f"{path} cannot be read ({error.strerror}); name another directory.") from None
        if not is_directory:
            raise ValueError(f"{path} is not a directory; name the --logdir of a run.")
        if not runs:
            raise ValueError(
                f"{path} contains no {name}, and neither does any directory within it; pass the --logdir of "
                "a run, or a directory of runs."
            )
        for run in runs:
            sweep = run.parent.parent  # Of a run in SWEEP/TRIAL/SEED.
            is_trial = (sweep / SWEEP_JOURNAL).is_file()
            source = str(sweep) if is_trial else "" if run == path else str(path)
            found.setdefault(os.path.realpath(run), (run, source))
    return dict(found.values())


def gather(paths: Iterable[str | Path], metric: str | None = None) -> Found:
    """Reads the runs of all paths (see `find_runs`), groups them, and picks the metric to plot.

    If `metric` is None, it is the return: in evaluation if all runs of the group report it, else in training.
    Runs that have no such metric, have not begun or cannot be read are skipped.

    Raises:
      ValueError: a path contains no run, no run has any values, or there is no such metric; the message is
        one sentence.
    """
    sources = find_runs(paths)
    wanted = _RETURNS if metric is None else (metric,)
    periods: dict[Path, list[dict[str, Any]]] = {}
    records: list[RunRecord] = []
    skipped: list[str] = []
    for directory in sources:
        try:
            run = record.read(str(directory))
            periods[run.logdir] = read_periods(directory)
            records.append(run)
        except ValueError as error:
            skipped.append(str(error))
    names = {run: {name for period in several for name in period} for run, several in periods.items()}
    known = sorted(set[str]().union(*names.values()) - {*_POSITIONS})
    if known and metric not in (None, *known):
        raise ValueError(
            f"--metric={metric} is not a metric of these runs; choose one of: {', '.join(known)}."
        )
    missing = f"no {metric}" if metric else "no return yet, since no episode has ended"
    unusable = [run for run in records if names[run.logdir].isdisjoint(wanted)]
    skipped += [f"{run.logdir} has {missing}." for run in unusable]
    if len(unusable) == len(records):
        if len(skipped) == 1:
            raise ValueError(f"There is nothing to show: {skipped[0]}")
        raise ValueError(
            f"None of these {len(skipped)} runs has anything to show; the first one: {skipped[0]}"
        )
    groups = []
    for (task, variant), alike in group_records([run for run in records if run not in unusable]).items():
        common = [name for name in wanted if all(name in names[run.logdir] for run in alike)]
        runs = []
        for run in alike:
            name = [*common, *(name for name in reversed(wanted) if name in names[run.logdir])][0]
            runs.append(Run(run, name, curve(periods[run.logdir], name), sources[run.logdir]))
        groups.append(Group(task, variant, tuple(runs)))
    return Found(groups, skipped)
