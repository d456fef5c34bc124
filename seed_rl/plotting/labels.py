"""Names of games, axes and lines, as short as possible while everything in the plot can be told apart."""

import dataclasses
import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from seed_rl.plotting.groups import Group, Task, Variant, order

_Key = TypeVar("_Key")


class Unit(NamedTuple):
    """The number that positions are divided by, and the axis's label."""

    size: float
    label: str


# By axis, from the largest one on.
_AXES = {
    "env_frames": (
        Unit(1e9, "environment frames (billions)"),
        Unit(1e6, "environment frames (millions)"),
        Unit(1e3, "environment frames (thousands)"),
        Unit(1.0, "environment frames"),
    ),
    "seconds": (
        Unit(3600.0, "hours of training"),
        Unit(60.0, "minutes of training"),
        Unit(1.0, "seconds of training"),
    ),
}


def axis_unit(groups: Iterable[Group], axis: str) -> Unit:
    """The largest unit for an axis, "env_frames" or "seconds", of which the longest run has one."""
    highest = max(getattr(run.curve, axis)[-1] for group in groups for run in group.runs)
    return next((unit for unit in _AXES[axis] if highest >= unit.size), _AXES[axis][-1])


def metric_label(groups: Iterable[Group]) -> str:
    """The label of the vertical axis.

    Returns in training and in evaluation may share an axis; the legend then says which is which.
    """
    return max(_metrics(groups)).replace("_", " ")


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
        names = _variant_names(sorted({g.variant for g in groups}, key=order), groups)
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
    """The names, each followed by the number of seeds, if any group has several.

    They are called runs if some of a group have the same seed.
    """
    if all(len(group.runs) == 1 for group in groups):
        return dict(names)
    found: dict[Variant, str] = {}
    for variant, name in names.items():
        mine = [group for group in groups if group.variant == variant]
        counts = [len(group.runs) for group in mine]
        seeds = [{run.record.learner_settings["seed"] for run in group.runs} for group in mine]
        noun = "seed" if [len(distinct) for distinct in seeds] == counts else "run"
        found[variant] = f"{name} ({span(counts)} {noun}{'s' * (max(counts) > 1)})"
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
_FIRST = ("torso", "learning_rate", "batch_size", "unroll_length", "entropy_cost", "discounting")
_ROUNDED = ".3g"


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
        alike = {variant: dict(variant.settings) for variant in distinct if variant.method == method}
        chosen, others = _chosen_settings(list(alike.values()))
        for number_format in (_ROUNDED, ""):
            short = {
                variant: ", ".join([method, *(_setting(s, mine[s], number_format) for s in chosen), *others])
                for variant, mine in alike.items()
            }
            if len(set(short.values())) == len(short):
                break
        names |= short
    return {variant: names[variant] for variant in distinct}


def _chosen_settings(alike: Sequence[Mapping[str, str]]) -> tuple[list[str], list[str]]:
    """The settings to name, at most three of those that differ, and an ellipsis if these are not all.

    Those of most values come first.
    """
    counts = {name: len({settings[name] for settings in alike}) for name in alike[0]}
    differing = sorted(
        (name for name, count in counts.items() if count > 1),
        key=lambda name: (-counts[name], [*_FIRST, name].index(name)),
    )
    return sorted(differing[:_MOST_SETTINGS]), ["…"] * (len(differing) > _MOST_SETTINGS)


def settings_text(settings: Mapping[str, str]) -> str:
    """Settings, as JSON by name, in words: `learning rate 0.00123, no dueling`."""
    return ", ".join(_setting(name, value, _ROUNDED) for name, value in settings.items())


def _setting(name: str, text: str, number_format: str) -> str:
    """A setting, as JSON, in words: `learning rate 0.001`, `dueling`, `no dueling`."""
    words, value = name.replace("_", " "), json.loads(text)
    if isinstance(value, bool):
        return words if value else f"no {words}"
    if isinstance(value, float):
        return f"{words} {value:{number_format}}"
    if isinstance(value, int):
        return f"{words} {value:,}"
    return f"{words} {'none' if value is None else value}"


@dataclasses.dataclass(frozen=True, eq=False)
class Search:
    """The combinations of settings of one variant, on one game or several.

    Attributes:
      name: the method and, where it has several variants, the settings that a search does not vary; else the
        directory.
      groups: a group for each combination and game; the one that ends highest is first.
    """

    name: str
    groups: tuple[Group, ...]

    def on(self, task: Task) -> list[Group]:
        """The combinations on one game, best first."""
        return [group for group in self.groups if group.task == task]


def searches(groups: Sequence[Group], label: str | None = None) -> list[Search]:
    """The searches that the groups belong to, by name.

    A search is in the directory of a sweep or in one that the user named; see `Run.source`. Several searches
    of a method are variants of it: they differ in a setting that none of them varies. Those that do not have
    their directories in their names. A variant may have one search for each game.

    Args:
      groups: what `gather` has found.
      label: names from the user; see `variant_labels`, which also says what is raised.
    """
    places = _places(groups)
    told = _told(groups, places)
    members: defaultdict[Variant, defaultdict[str, list[Group]]] = defaultdict(lambda: defaultdict(list))
    for group in groups:
        method, settings = group.variant
        kept = tuple((name, value) for name, value in settings if name in told[method])
        members[Variant(method, kept)][places[group]].append(group)
    names = names_by_settings(members)
    repeated = Counter(names.values())
    found: defaultdict[str, list[Group]] = defaultdict(list)
    for variant, by_place in members.items():
        name = names[variant]
        tasks = [task for several in by_place.values() for task in {group.task for group in several}]
        is_one = repeated[name] == 1 and len(tasks) == len(set(tasks))
        for place, several in by_place.items():
            found[name if is_one else f"{name}, {place or 'other runs'}"] += several
    given = {name: name for name in sorted(found)} if label is None else renamed({n: n for n in found}, label)
    return [
        Search(
            short + where_measured(found[name], groups),
            tuple(sorted(found[name], key=lambda group: -group.final)),
        )
        for name, short in given.items()
    ]


def _places(groups: Sequence[Group]) -> dict[Group, str]:
    """The directory of each group's search; empty where its method has no second one.

    A directory is that of a search if it has two combinations of the method on a game.
    """
    counts = Counter((group.variant.method, group.runs[0].source, group.task) for group in groups)
    several: defaultdict[str, set[str]] = defaultdict(set)
    for (method, source, _), count in counts.items():
        if source and count > 1:
            several[method].add(source)
    found: dict[Group, str] = {}
    for group in groups:
        mine, source = several[group.variant.method], group.runs[0].source
        found[group] = source if len(mine) > 1 and source in mine else ""
    return found


def _told(groups: Sequence[Group], places: dict[Group, str]) -> dict[str, set[str]]:
    """By method, the settings that no search varies on a game; runs outside of searches do not count."""
    told: dict[str, set[str]] = {}
    for method in {group.variant.method for group in groups}:
        mine = [group for group in groups if group.variant.method == method]
        values: defaultdict[tuple[str, str, Task], set[str]] = defaultdict(set)
        for group in [group for group in mine if places[group]] or mine:
            for name, value in group.variant.settings:
                values[name, places[group], group.task].add(value)
        varied = {name for (name, _, _), found in values.items() if len(found) > 1}
        told[method] = {name for name, _ in mine[0].variant.settings} - varied
    return told
