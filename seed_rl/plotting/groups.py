"""Groups of runs that differ only in the seed and in plumbing, their names, and searches over their settings.

Names of games and lines are as short as possible while everything in the plot can be told apart.
"""

import dataclasses
import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from seed_rl.algorithms import registry as algorithms
from seed_rl.metrics.curves import POSITIONS, Curve, curve, final_value, read_periods
from seed_rl.runs import record
from seed_rl.runs.layout import find_runs
from seed_rl.runs.record import RunRecord, plumbing

_RETURNS = ("mean_evaluation_return", "mean_return")
_MOST_SETTINGS = 3
# Of many settings that differ, those that readers look for first.
_FIRST = ("torso", "learning_rate", "batch_size", "unroll_length", "entropy_cost", "discounting")


class GameTask(NamedTuple):
    """The game that is played."""

    environment: str
    game: str | None

    def __str__(self) -> str:
        return self.game or self.environment


class Variant(NamedTuple):
    """A method (see `method_name`) and the settings, as JSON, that differ between the runs of that method."""

    method: str
    settings: tuple[tuple[str, str], ...] = ()


class RunCurve(NamedTuple):
    """A run, the metric of it that is plotted, never empty, and its `source`; see `find_runs`."""

    record: RunRecord
    curve: Curve
    source: str = ""


@dataclasses.dataclass(frozen=True, eq=False)
class RunGroup:
    """Runs that differ only in their seed and in plumbing; a group is equal only to itself.

    `metric` is the name of the one that is plotted.
    """

    task: GameTask
    variant: Variant
    metric: str
    runs: tuple[RunCurve, ...]

    @property
    def source(self) -> str:
        """That of its first run; see `RunCurve`."""
        return self.runs[0].source

    @property
    def finals(self) -> list[float]:
        """The mean over the last tenth of each run."""
        return [final_value(run.curve) for run in self.runs]

    @property
    def final(self) -> float:
        """The mean over runs of `finals`."""
        return float(np.mean(self.finals))


class Found(NamedTuple):
    """Groups of runs, and a sentence on each run that is left out, which names it."""

    groups: list[RunGroup]
    skipped: list[str]


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
    curves: dict[Path, dict[str, Curve]] = {}
    records: list[RunRecord] = []
    skipped: list[str] = []
    known: set[str] = set()
    for directory in sources:
        try:
            run, periods = record.read(str(directory)), read_periods(directory)
        except ValueError as error:
            skipped.append(str(error))
            continue
        names = {name for period in periods for name in period}
        known |= names - {*POSITIONS}
        if names.isdisjoint(wanted):
            missing = f"no {metric}" if metric else "no return yet, since no episode has ended"
            skipped.append(f"{run.logdir} has {missing}.")
        else:
            records.append(run)
            curves[run.logdir] = {name: curve(periods, name) for name in wanted if name in names}
    if known and metric not in (None, *known):
        raise ValueError(
            f"--metric={metric} is not a metric of these runs; choose one of: {', '.join(sorted(known))}."
        )
    if not records:
        several = f"None of these {len(skipped)} runs has anything to show; the first one"
        raise ValueError(f"{several if len(skipped) > 1 else 'There is nothing to show'}: {skipped[0]}")
    groups = []
    for (task, variant), alike in group_records(records).items():
        name = max(wanted, key=lambda name: sum(name in curves[run.logdir] for run in alike))
        having = [run for run in alike if name in curves[run.logdir]]
        skipped += [f"{run.logdir} has no {name}, unlike others." for run in alike if run not in having]
        runs = (RunCurve(run, curves[run.logdir][name], sources[run.logdir]) for run in having)
        groups.append(RunGroup(task, variant, name, tuple(runs)))
    return Found(groups, skipped)


def group_records(records: Sequence[RunRecord]) -> dict[tuple[GameTask, Variant], list[RunRecord]]:
    """The records that belong together, in the order of their first one.

    Two groups of the same method on the same game differ in some setting, and every setting that differs in
    this way on any game is part of that method's variants. Settings that differ only between games are not.
    """
    alike: defaultdict[tuple[GameTask, str], list[dict[str, str]]] = defaultdict(list)
    keys = [(GameTask(run.environment, run.game), method_name(run), telling_settings(run)) for run in records]
    for task, method, mine in keys:
        alike[task, method].append(mine)
    telling: defaultdict[str, set[str]] = defaultdict(set)
    for (_, method), several in alike.items():
        telling[method] |= {name for name in set().union(*several) if len({s.get(name) for s in several}) > 1}
    groups: defaultdict[tuple[GameTask, Variant], list[RunRecord]] = defaultdict(list)
    for run, (task, method, mine) in zip(records, keys, strict=True):
        told = tuple((name, mine.get(name, "null")) for name in sorted(telling[method]))
        groups[task, Variant(method, told)].append(run)
    return groups


def by_task(groups: Iterable[RunGroup]) -> dict[GameTask, list[RunGroup]]:
    """The groups of each game, in the given order; games in alphabetical order."""
    tasks: defaultdict[GameTask, list[RunGroup]] = defaultdict(list)
    for group in groups:
        tasks[group.task].append(group)
    return dict(sorted(tasks.items(), key=lambda item: (str(item[0]).lower(), item[0].environment)))


def task_labels(tasks: Iterable[GameTask]) -> dict[GameTask, str]:
    """The game, preceded by the environment where two environments have a game of that name."""
    counts = Counter(map(str, distinct := dict.fromkeys(tasks)))
    return {task: str(task) if counts[str(task)] == 1 else " ".join(filter(None, task)) for task in distinct}


def metric_label(groups: Iterable[RunGroup]) -> str:
    """The label of the vertical axis.

    Returns in training and in evaluation may share an axis; the legend then says which is which.
    """
    return max(group.metric for group in groups).replace("_", " ")


def variant_labels(groups: Sequence[RunGroup], given: str | None = None) -> dict[Variant, str]:
    """The method, the settings that tell it from the others here, and where it was measured.

    At most three settings are named. If they do not tell two variants apart, a run directory does. `groups`
    are what is drawn, in the order in which the runs were named; so are the labels. `given` are names from
    the user instead, separated by commas, in the same order.

    Raises:
      ValueError: there are more or fewer names than variants; the message is one sentence.
    """
    mine: defaultdict[Variant, list[RunGroup]] = defaultdict(list)
    for group in groups:
        mine[group.variant].append(group)
    names = _names(mine)
    counts = Counter(names.values())
    for variant, name in names.items():
        if counts[name] > 1:
            names[variant] = f"{name} ({mine[variant][0].runs[0].record.logdir})"
    return dict(zip(mine, _labels(names.values(), given, mine.values()), strict=True))


def _labels(ours: Iterable[str], given: str | None, groups: Iterable[Sequence[RunGroup]]) -> list[str]:
    """Our names or those that a user gives, and which groups are measured in evaluation, unlike others."""
    ours, groups = list(ours), list(groups)
    names = ours if given is None else [name.strip() for name in given.split(",")]
    if len(names) != len(ours) or not all(names) or len(set(names)) != len(names):
        raise ValueError(
            f"--label={given} does not fit these runs; give {len(ours)} different names, separated by "
            f"commas, for: {'; '.join(ours)}."
        )
    metrics = [{group.metric for group in several} for several in groups]
    are_mixed = len(set().union(*metrics)) > 1
    suffixes = [", in evaluation" * (are_mixed and found == {"mean_evaluation_return"}) for found in metrics]
    return [name + suffix for name, suffix in zip(names, suffixes, strict=True)]


def with_counts(names: Mapping[Variant, str], groups: Sequence[RunGroup]) -> dict[Variant, str]:
    """The names, each followed by the number of runs if there are several."""
    found: dict[Variant, str] = {}
    for variant, name in names.items():
        counts = [len(group.runs) for group in groups if group.variant == variant]
        found[variant] = f"{name} ({span(counts)} runs)" if max(counts) > 1 else name
    return found


def span(counts: Collection[int]) -> str:
    """A number, or the lowest and the highest of several: `3`, `1 to 3`."""
    return " to ".join(str(count) for count in sorted({min(counts), max(counts)}))


def _names(variants: Iterable[Variant]) -> dict[Variant, str]:
    """The method and up to three of the settings that differ, those of most values first.

    Two variants have the same name if only other settings tell them apart.
    """
    values: defaultdict[str, defaultdict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for variant in (variants := list(dict.fromkeys(variants))):
        for name, value in variant.settings:
            values[variant.method][name].add(value)
    names = {}
    for variant in variants:
        counts = {name: len(found) for name, found in values[variant.method].items() if len(found) > 1}
        ranked = sorted(counts, key=lambda name: (-counts[name], [*_FIRST, name].index(name), name))
        chosen, more = ranked[:_MOST_SETTINGS], ["…"] * (len(ranked) > _MOST_SETTINGS)
        told = [setting_text(name, value) for name, value in variant.settings if name in chosen]
        names[variant] = ", ".join([variant.method, *told, *more])
    return names


def setting_text(name: str, text: str) -> str:
    """A setting, as JSON, in words: `learning rate 0.001`, `dueling`, `no dueling`."""
    words, value = name.replace("_", " "), json.loads(text)
    if isinstance(value, bool):
        return words if value else f"no {words}"
    if isinstance(value, float):
        return f"{words} {value:.3g}"
    return f"{words} {'none' if value is None else value}"


def searches(groups: Sequence[RunGroup], label: str | None = None) -> dict[str, list[RunGroup]]:
    """The searches that the groups belong to, by name: combinations of settings, best first.

    A search is in the directory of a sweep or in one that the user named; see `RunCurve.source`. Several
    searches of a method are variants of it: they differ in a setting that none of them varies on a game.
    Those that do not have their directories in their names. A variant may have one search for each game.
    `label` are names from the user; see `variant_labels`, which also says what is raised.
    """
    values: defaultdict[tuple[str, str, str, GameTask], set[str]] = defaultdict(set)
    for group in groups:
        for name, value in group.variant.settings:
            values[group.variant.method, name, group.source, group.task].add(value)
    varied = {(method, name) for (method, name, *_), found in values.items() if len(found) > 1}
    members: defaultdict[tuple[Variant, str], list[RunGroup]] = defaultdict(list)
    for group in groups:
        method, settings = group.variant
        kept = tuple((name, value) for name, value in settings if (method, name) not in varied)
        members[Variant(method, kept), group.source].append(group)
    names = _names(variant for variant, _ in members)
    played = Counter(
        (names[variant], task) for (variant, _), some in members.items() for task in by_task(some)
    )
    unclear = {name for (name, _), count in played.items() if count > 1}
    found: defaultdict[str, list[RunGroup]] = defaultdict(list)
    for (variant, source), some in members.items():
        name = names[variant]
        found[f"{name}, {source or 'other runs'}" if name in unclear else name] += some
    ranked = [sorted(several, key=lambda group: -group.final) for several in found.values()]
    return dict(zip(_labels(found, label, ranked), ranked, strict=True))


def telling_settings(record: RunRecord) -> dict[str, str]:
    """The settings that tell groups apart, as JSON by name."""
    mine = record.learner_settings | record.environment_settings | record.agent_settings
    left_out = plumbing(record.agent) | {"game"}
    return {name: json.dumps(value, sort_keys=True) for name, value in mine.items() if name not in left_out}


def method_name(run: RunRecord) -> str:
    """The method's name in print; an agent that is not installed has the name that it was registered with."""
    try:
        return algorithms.config_class(run.agent).method_name(run.agent_settings) or run.agent
    except ValueError:
        return run.agent
