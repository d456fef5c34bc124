"""Searches of hyperparameters: the combinations of settings of a variant of a method, from best to worst."""

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Sequence

from seed_rl.plotting.groups import Group, Task, Variant
from seed_rl.plotting.labels import names_by_settings, renamed, where_measured


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
    found: dict[str, list[Group]] = {}
    for variant, by_place in members.items():
        name = names[variant]
        is_one = repeated[name] == 1 and _are_apart(list(by_place.values()))
        for place, mine in by_place.items():
            full = name if is_one else f"{name}, {place or 'other runs'}"
            found.setdefault(full, []).extend(mine)
    order = {name: name for name in (found if label is not None else sorted(found))}
    given = renamed(order, label) if label is not None else order
    return [
        Search(given[name] + where_measured(found[name], groups), tuple(sorted(found[name], key=_worst_last)))
        for name in order
    ]


def _worst_last(group: Group) -> float:
    return -group.final


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


def _are_apart(several: Sequence[Sequence[Group]]) -> bool:
    """Whether no two of these have a game in common."""
    tasks = [task for groups in several for task in {group.task for group in groups}]
    return len(tasks) == len(set(tasks))
