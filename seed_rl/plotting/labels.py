"""Names of games, agents and groups, as short as possible while everything in the plot can be told apart."""

import json
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from seed_rl.plotting.groups import Group, Task, Variant, variants
from seed_rl.plotting.lines import Line

_RETURNS = {"mean_return": "mean return", "mean_evaluation_return": "mean return in evaluation"}
_UNITS = {"ms": "ms", "mib": "MiB", "updates": "updates", "seconds": "seconds"}


class Unit(NamedTuple):
    """The number that positions are divided by, and the axis's label."""

    size: float
    label: str


# By axis: what is divided by from which highest position on, and its label.
_AXES = {
    "env_frames": (
        (1e9, Unit(1e9, "environment frames (billions)")),
        (1e6, Unit(1e6, "environment frames (millions)")),
        (1e3, Unit(1e3, "environment frames (thousands)")),
        (0.0, Unit(1.0, "environment frames")),
    ),
    "seconds": (
        (7200.0, Unit(3600.0, "hours of training")),
        (120.0, Unit(60.0, "minutes of training")),
        (0.0, Unit(1.0, "seconds of training")),
    ),
}


def axis_unit(axis: str, lines: Iterable[Line]) -> Unit:
    """The unit for an axis of lines, "env_frames" or "seconds"."""
    highest = max(line.x[-1] for line in lines)
    return next(unit for least, unit in _AXES[axis] if highest >= least)


def metric_label(metrics: Collection[str]) -> str:
    """The label of the vertical axis, given the names of the metrics that are plotted.

    Returns in training and in evaluation may share an axis; the legend then says which is which.
    """
    (metric, *others) = sorted(metrics)
    if others:
        return "mean return"
    if metric in _RETURNS:
        return _RETURNS[metric]
    *words, last = metric.split("_")
    if words and last in _UNITS:
        return f"{' '.join(words)} ({_UNITS[last]})"
    return metric.replace("_", " ")


_DIGITS = 3


def task_labels(tasks: Iterable[Task]) -> dict[Task, str]:
    """The game, preceded by the environment where two environments have a game of that name."""
    distinct = list(dict.fromkeys(tasks))
    short = [str(task) for task in distinct]
    return {t: str(t) if short.count(str(t)) == 1 else " ".join(filter(None, t)) for t in distinct}


def variant_labels(groups: Sequence[Group]) -> dict[Variant, str]:
    """The agent, the settings that tell it from the others here, and where it was measured; in order."""
    names = _variant_names(variants(groups))
    return {
        variant: name + where_measured([g for g in groups if g.variant == variant], groups)
        for variant, name in names.items()
    }


def group_labels(groups: Sequence[Group]) -> list[str]:
    """For each group: its game if there are several, agent, settings, and how many runs are averaged."""
    tasks = task_labels(group.task for group in groups)
    names = _variant_names(variants(groups))
    found = []
    for group in groups:
        text = names[group.variant] + where_measured([group], groups)
        if len(tasks) > 1:
            text = f"{tasks[group.task]}: {text}"
        if len(group.runs) > 1:
            text += f" ({len(group.runs)} runs)"
        found.append(text)
    return found


def where_measured(groups: Sequence[Group], drawn: Sequence[Group]) -> str:
    """The suffix for groups measured in evaluation, if others in the plot are measured in training."""

    def metrics(some: Sequence[Group]) -> set[str]:
        return {run.metric for group in some for run in group.runs}

    mine = metrics(groups)
    if len(metrics(drawn)) == 1 or "mean_evaluation_return" not in mine:
        return ""
    return ", in evaluation" if len(mine) == 1 else ", partly in evaluation"


def _variant_names(distinct: Sequence[Variant]) -> dict[Variant, str]:
    """The names of variants, with rounded numbers if they can be told apart that way."""
    telling = {
        v: [s for s in v.settings if any(_differs(s, other, v) for other in distinct)] for v in distinct
    }
    short = {variant: _label(variant.agent, telling[variant], f".{_DIGITS}g") for variant in distinct}
    if len(set(short.values())) == len(short):
        return short
    return {variant: _label(variant.agent, telling[variant], "") for variant in distinct}


def _differs(setting: tuple[str, str], other: Variant, mine: Variant) -> bool:
    return other.agent == mine.agent and setting not in other.settings


def _label(agent: str, settings: Iterable[tuple[str, str]], number_format: str) -> str:
    values = []
    for name, text in settings:
        value = json.loads(text)
        shown = format(value, number_format) if isinstance(value, float) else text.strip('"')
        values.append(f"{name}={'none' if value is None else shown}")
    return ", ".join([agent, *values])
