"""Finds and reads runs in directories, and groups them with the metric to plot."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from seed_rl.plotting.groups import Group, Run, group_records
from seed_rl.runs import record
from seed_rl.runs.curves import curve, read_periods, return_name
from seed_rl.runs.layout import RunDirectory

_DEPTH = 3
_POSITIONS = ("env_frames", "seconds")  # These say when a period was, rather than how it went.

Periods = list[dict[str, Any]]


def find_runs(paths: Iterable[str | Path]) -> list[Path]:
    """The run directories among the paths, or up to three levels below them; each once.

    Raises:
      ValueError: a directory contains no run; the message is one sentence.
    """
    found: dict[str, Path] = {}
    for path in map(Path, paths):
        try:
            runs = sorted(_runs_within(path, _DEPTH))
        except OSError as error:
            raise ValueError(f"{path} cannot be read ({error.strerror}); name another directory.") from None
        if not runs and path.is_dir():
            name = RunDirectory(path).record.name
            raise ValueError(
                f"{path} contains no {name}, and neither does any directory within it; pass the --logdir of "
                "a run, or a directory of runs."
            )
        for run in runs or [path]:
            found.setdefault(os.path.realpath(run), run)
    return list(found.values())


def gather(
    paths: Iterable[str | Path], metric: str | None = None, leave_out: bool = False
) -> tuple[list[Group], list[Path]]:
    """Reads the runs of all paths (see `find_runs`), groups them, and picks the metric to plot.

    If `metric` is None, it is the return, in evaluation if any run of the group reports it. Returns at least
    one group, and the directories of the runs without the metric, which are errors unless `leave_out`.

    Raises:
      ValueError: a path is not a run directory, a run has no metrics yet, or there is no such metric; the
        message is one sentence.
    """
    directories = find_runs(paths)
    records = [record.read(str(directory)) for directory in directories]
    periods = {r.logdir: _periods(r.logdir, leave_out) for r in records}
    names = _figures(p for some in periods.values() for p in some)
    if metric is not None and names and metric not in names:
        raise ValueError(
            f"--metric={metric} is not a metric of these runs; choose one of: {', '.join(names)}."
        )
    groups, left_out = [], []
    for (task, variant), alike in group_records(records).items():
        name = metric or return_name([p for r in alike for p in periods[r.logdir]])
        runs = [Run(r, name, curve(periods[r.logdir], name)) for r in alike]
        empty = [run.record.logdir for run in runs if not len(run.curve.value)]
        if empty and not leave_out:
            raise ValueError(_missing(empty[0], name, metric, periods[empty[0]]))
        left_out += empty
        if full := tuple(run for run in runs if len(run.curve.value)):
            groups.append(Group(task, variant, full))
    if not groups:
        raise ValueError(f"No run has {metric or 'a return'} yet; wait until episodes have ended.")
    return groups, left_out


def _runs_within(path: Path, depth: int) -> Iterable[Path]:
    """The run directories at or below a path. Runs contain no other runs, so they are not searched."""
    if RunDirectory(path).record.is_file():
        yield path
    elif depth and path.is_dir() and os.access(path, os.R_OK | os.X_OK):
        for child in path.iterdir():
            if child.is_dir():
                yield from _runs_within(child, depth - 1)


def _periods(logdir: Path, leave_out: bool) -> Periods:
    try:
        return read_periods(logdir)
    except ValueError:
        if leave_out:
            return []
        raise


def _figures(periods: Iterable[dict[str, Any]]) -> list[str]:
    """The names of all metrics, sorted."""
    return sorted({name for period in periods for name in period} - {*_POSITIONS})


def _missing(logdir: Path, name: str, metric: str | None, periods: Sequence[dict[str, Any]]) -> str:
    if metric is None:
        return f"{logdir} has no {name} yet, since no episode has ended; wait, or leave the run out."
    return f"{logdir} has no {name}; leave the run out, or choose one of: {', '.join(_figures(periods))}."
