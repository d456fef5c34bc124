"""Finds and reads runs, and groups those that differ only in the seed and in plumbing."""

import dataclasses
import json
import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from seed_rl.runs import record
from seed_rl.runs.curves import POSITIONS, Curve, curve, final_value, read_periods
from seed_rl.runs.layout import SWEEP_JOURNAL, RunDirectory
from seed_rl.runs.record import RunRecord, plumbing

_DEPTH = 3
_RETURNS = ("mean_evaluation_return", "mean_return")


class Task(NamedTuple):
    """The game that is played."""

    environment: str
    game: str | None

    def __str__(self) -> str:
        return self.game or self.environment


class Variant(NamedTuple):
    """A method (see `method_name`) and the settings, as JSON, that differ between the runs of that method."""

    method: str
    settings: tuple[tuple[str, str], ...] = ()


class Run(NamedTuple):
    """A run and the one metric of it that is plotted.

    Attributes:
      record: its run.json.
      metric: name of the metric.
      curve: the finite values of the metric; never empty.
      source: the directory of the sweep that it belongs to; else the directory of several runs in which it
        was found; empty if the run itself was named.
    """

    record: RunRecord
    metric: str
    curve: Curve
    source: str = ""


@dataclasses.dataclass(frozen=True, eq=False)
class Group:
    """Runs that differ only in their seed and in plumbing; a group is equal only to itself."""

    task: Task
    variant: Variant
    runs: tuple[Run, ...]

    @property
    def finals(self) -> list[float]:
        """The mean over the last tenth of each run."""
        return [final_value(run.curve) for run in self.runs]

    @property
    def final(self) -> float:
        """The mean over runs of `finals`."""
        return float(np.mean(self.finals))


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
    known = sorted(set[str]().union(*names.values()) - {*POSITIONS})
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


def group_records(records: Sequence[RunRecord]) -> dict[tuple[Task, Variant], list[RunRecord]]:
    """The records that belong together, in the order of their first one.

    Two groups of the same method on the same game differ in some setting, and every setting that differs in
    this way on any game is part of that method's variants. Settings that differ only between games are not.
    """
    alike: defaultdict[tuple[Task, str], list[dict[str, str]]] = defaultdict(list)
    keys = [(Task(run.environment, run.game), method_name(run), telling_settings(run)) for run in records]
    for task, method, mine in keys:
        alike[task, method].append(mine)
    telling: defaultdict[str, set[str]] = defaultdict(set)
    for (_, method), several in alike.items():
        telling[method] |= {name for name in set().union(*several) if len({s.get(name) for s in several}) > 1}
    groups: defaultdict[tuple[Task, Variant], list[RunRecord]] = defaultdict(list)
    for run, (task, method, mine) in zip(records, keys, strict=True):
        told = tuple((name, mine.get(name, "null")) for name in sorted(telling[method]))
        groups[task, Variant(method, told)].append(run)
    return groups


def by_task(groups: Sequence[Group]) -> dict[Task, list[Group]]:
    """The groups of each game, in the order of their variants; games in alphabetical order."""
    tasks = sorted({group.task for group in groups}, key=lambda task: (str(task).lower(), task.environment))
    ordered = sorted(groups, key=lambda group: order(group.variant))
    return {task: [group for group in ordered if group.task == task] for task in tasks}


def order(variant: Variant) -> tuple[str, list[tuple[float, str]]]:
    """The sort key: methods by name, and settings by value if they are numbers."""
    values = [json.loads(value) for _, value in variant.settings]
    return variant.method, [
        (float(value), "") if type(value) in (int, float) else (float("-inf"), str(value)) for value in values
    ]


def telling_settings(record: RunRecord) -> dict[str, str]:
    """The settings that tell groups apart, as JSON by name."""
    mine = record.learner_settings | record.environment_settings | record.agent_settings
    left_out = plumbing(record.agent) | {"game"}
    return {name: json.dumps(value, sort_keys=True) for name, value in mine.items() if name not in left_out}


_NAMES = {
    "a2c": "A2C",
    "appo": "APPO",
    "dqn": "DQN",
    "pqn": "PQN",
    "ppo": "PPO",
    "r2d2": "R2D2",
    "sac": "SAC",
    "vtrace": "V-trace",
}


def method_name(run: RunRecord) -> str:
    """The method's name in print.

    Some sets of DQN's settings have names of their own, whichever preset or flags they came from: Rainbow
    (Hessel et al., 2018) has double, dueling, categorical and noisy networks, prioritized replay and n-step
    targets. ε-Rainbow (Stooke & Abbeel, 2018) explores with an epsilon in place of the noise. An agent of
    another package keeps the name that it is registered with.
    """
    settings = run.agent_settings
    if (
        run.agent == "dqn"
        and (settings["double"] and settings["dueling"] and settings["distribution"] == "categorical")
        and (settings["n_steps"] > 1 and settings["priority_exponent"] > 0)
    ):
        return "Rainbow" if settings["exploration"] == "noisy" else "ε-Rainbow"
    return _NAMES.get(run.agent, run.agent)
