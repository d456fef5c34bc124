"""Names of games, axes and lines, as short as possible while everything in the plot can be told apart."""

import itertools
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from seed_rl.plotting.groups import Group, Task, Variant, variants

_RETURNS = {"mean_return": "mean return", "mean_evaluation_return": "mean return in evaluation"}
_UNITS = {"ms": "ms", "mib": "MiB", "updates": "updates", "seconds": "seconds"}
_Key = TypeVar("_Key")


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


def axis_unit(axis: str, highest: float) -> Unit:
    """The unit for an axis, "env_frames" or "seconds", whose highest position this is."""
    return next(unit for least, unit in _AXES[axis] if highest >= least)


def metric_label(groups: Iterable[Group]) -> str:
    """The label of the vertical axis.

    Returns in training and in evaluation may share an axis; the legend then says which is which.
    """
    (metric, *others) = sorted(_metrics(groups))
    if others:
        return "mean return"
    if metric in _RETURNS:
        return _RETURNS[metric]
    *words, last = metric.split("_")
    if words and last in _UNITS:
        return f"{' '.join(words)} ({_UNITS[last]})"
    return metric.replace("_", " ")


def task_labels(tasks: Iterable[Task]) -> dict[Task, str]:
    """The game, preceded by the environment where two environments have a game of that name."""
    distinct = list(dict.fromkeys(tasks))
    short = [str(task) for task in distinct]
    return {t: str(t) if short.count(str(t)) == 1 else " ".join(filter(None, t)) for t in distinct}


def variant_labels(groups: Sequence[Group], given: str | None = None) -> dict[Variant, str]:
    """The method, the settings that tell it from the others here, and where it was measured; in order.

    At most three settings are named. If they do not tell two variants apart, a run directory does.

    Args:
      groups: what is drawn.
      given: names from the user, separated by commas, in the order in which the runs were named.

    Raises:
      ValueError: there are more or fewer names than variants; the message is one sentence.
    """
    if given is not None:
        names = renamed(_variant_names(dict.fromkeys(g.variant for g in groups), groups), given)
    else:
        names = _variant_names(variants(groups), groups)
    return {
        variant: name + where_measured([g for g in groups if g.variant == variant], groups)
        for variant, name in names.items()
    }


def renamed(names: Mapping[_Key, str], given: str) -> dict[_Key, str]:
    """The names that a user gives, separated by commas, in place of our own; raises as `variant_labels`."""
    mine = [name.strip() for name in given.split(",")]
    if len(mine) != len(names) or not all(mine) or len(set(mine)) != len(mine):
        raise ValueError(
            f"--label={given} does not fit these runs; give {len(names)} different names, separated by "
            f"commas, for: {'; '.join(names.values())}."
        )
    return dict(zip(names, mine, strict=True))


def with_counts(names: Mapping[Variant, str], groups: Sequence[Group]) -> dict[Variant, str]:
    """The names, each followed by the number of seeds, if any group has several."""
    if all(len(group.runs) == 1 for group in groups):
        return dict(names)
    found: dict[Variant, str] = {}
    for variant, name in names.items():
        mine = sorted((g for g in groups if g.variant == variant), key=lambda group: len(group.runs))
        fewest, most = mine[0], mine[-1]
        is_same = len(fewest.runs) == len(most.runs)
        found[variant] = f"{name} ({most.count if is_same else f'{len(fewest.runs)} to {most.count}'})"
    return found


def span(counts: Collection[int]) -> str:
    """A number, or the lowest and the highest of several: `3`, `1 to 3`."""
    return " to ".join(str(count) for count in sorted({min(counts), max(counts)}))


def where_measured(groups: Sequence[Group], drawn: Sequence[Group]) -> str:
    """The suffix for groups measured in evaluation, if others in the plot are measured in training."""
    mine = _metrics(groups)
    if len(_metrics(drawn)) == 1 or "mean_evaluation_return" not in mine:
        return ""
    return ", in evaluation" if len(mine) == 1 else ", partly in evaluation"


def _metrics(groups: Iterable[Group]) -> set[str]:
    return {run.metric for group in groups for run in group.runs}


_MOST_SETTINGS = 3
# Of many settings that differ, those that readers look for first.
_FIRST = (
    "torso",
    "learning_rate",
    "batch_size",
    "unroll_length",
    "entropy_cost",
    "discounting",
    "replay_ratio",
)
_DIGITS = 3


def _variant_names(distinct: Collection[Variant], groups: Sequence[Group]) -> dict[Variant, str]:
    """The names of variants, with a run directory where settings do not tell them apart."""
    names = names_by_settings(distinct)
    texts = list(names.values())
    for variant, name in names.items():
        if texts.count(name) > 1:
            first = next(group.runs[0] for group in groups if group.variant == variant)
            names[variant] = f"{name} ({first.record.logdir})"
    return names


def names_by_settings(distinct: Collection[Variant]) -> dict[Variant, str]:
    """The method and up to three settings that differ, with rounded numbers if they can be told apart so.

    Two variants have the same name if only other settings tell them apart.
    """
    names: dict[Variant, str] = {}
    for method in dict.fromkeys(variant.method for variant in distinct):
        alike = [variant for variant in distinct if variant.method == method]
        chosen, is_all = _chosen_settings(alike)
        short = [_label(variant, chosen, is_all, f".{_DIGITS}g") for variant in alike]
        if len(set(short)) < len(short):
            short = [_label(variant, chosen, is_all, "") for variant in alike]
        names |= zip(alike, short, strict=True)
    return {variant: names[variant] for variant in distinct}


def _chosen_settings(alike: Sequence[Variant]) -> tuple[list[str], bool]:
    """The settings to name, at most three of those that differ, and whether these are all."""
    values = [dict(variant.settings) for variant in alike]
    differing = [name for name in values[0] if len({value[name] for value in values}) > 1]
    if len(differing) <= _MOST_SETTINGS:
        return differing, True
    order = [*(name for name in _FIRST if name in differing), *(n for n in differing if n not in _FIRST)]

    def separated(names: Iterable[str]) -> int:
        return len({tuple(value[name] for name in names) for value in values})

    some = itertools.islice(itertools.combinations(order, _MOST_SETTINGS), 1000)
    return sorted(max(some, key=separated)), False


def _label(variant: Variant, names: Iterable[str], is_all: bool, number_format: str) -> str:
    values = dict(variant.settings)
    texts = [_setting(name, json.loads(values[name]), number_format) for name in names]
    return ", ".join([variant.method, *texts, *([] if is_all else ["…"])])


def settings_text(settings: Mapping[str, str]) -> str:
    """Settings, as JSON by name, in words: `learning rate 0.00123, no dueling`."""
    return ", ".join(_setting(name, json.loads(value), f".{_DIGITS}g") for name, value in settings.items())


def _setting(name: str, value: object, number_format: str) -> str:
    """A setting in words: `learning rate 0.001`, `dueling`, `no dueling`."""
    words = name.replace("_", " ")
    if isinstance(value, bool):
        return words if value else f"no {words}"
    if isinstance(value, float):
        return f"{words} {value:{number_format}}"
    if isinstance(value, int):
        return f"{words} {value:,}"
    return f"{words} {'none' if value is None else value}"
