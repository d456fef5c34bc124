"""Groups runs that differ only in the seed and in plumbing, and finds what differs between groups."""

import dataclasses
import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from seed_rl.plotting.methods import method_name
from seed_rl.runs.curves import Curve, final_value
from seed_rl.runs.record import RunRecord, plumbing


class Task(NamedTuple):
    """The game that is played."""

    environment: str
    game: str | None

    @classmethod
    def of(cls, record: RunRecord) -> "Task":
        """What a run plays."""
        return cls(record.environment, record.game)

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

    @property
    def count(self) -> str:
        """How many runs there are: `3 seeds`, or `3 runs` if some have the same seed."""
        seeds = {run.record.learner_settings["seed"] for run in self.runs}
        noun = "seed" if len(seeds) == len(self.runs) else "run"
        return f"{len(self.runs)} {noun}{'s' * (len(self.runs) > 1)}"


def group_records(records: Sequence[RunRecord]) -> dict[tuple[Task, Variant], list[RunRecord]]:
    """The records that belong together, in the order of their first one.

    Two groups of the same method on the same game differ in some setting, and every setting that differs in
    this way on any game is part of that method's variants. Settings that differ only between games are not.
    """
    settings = [telling_settings(record) for record in records]
    methods = [method_name(record) for record in records]
    alike: defaultdict[tuple[Task, str], list[dict[str, str]]] = defaultdict(list)
    for record, method, mine in zip(records, methods, settings, strict=True):
        alike[Task.of(record), method].append(mine)
    telling: defaultdict[str, set[str]] = defaultdict(set)
    for (_, method), several in alike.items():
        telling[method] |= {name for name in set().union(*several) if len({s.get(name) for s in several}) > 1}
    groups: defaultdict[tuple[Task, Variant], list[RunRecord]] = defaultdict(list)
    for record, method, mine in zip(records, methods, settings, strict=True):
        told = tuple((name, mine.get(name, "null")) for name in sorted(telling[method]))
        groups[Task.of(record), Variant(method, told)].append(record)
    return groups


def by_task(groups: Sequence[Group]) -> dict[Task, list[Group]]:
    """The groups of each game, in the order of `variants`; games in alphabetical order."""
    tasks = sorted({group.task for group in groups}, key=lambda task: (str(task).lower(), task.environment))
    ordered = sorted(groups, key=lambda group: _order(group.variant))
    return {task: [group for group in ordered if group.task == task] for task in tasks}


def variants(groups: Iterable[Group]) -> list[Variant]:
    """The distinct variants, in order."""
    return sorted({group.variant for group in groups}, key=_order)


def _order(variant: Variant) -> tuple[str, list[tuple[float, str]]]:
    """The sort key: methods by name, and settings by value if they are numbers."""

    def order(value: Any) -> tuple[float, str]:
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return (float(value), "") if is_number else (float("-inf"), str(value))

    return variant.method, [order(json.loads(value)) for _, value in variant.settings]


def telling_settings(record: RunRecord) -> dict[str, str]:
    """The settings that tell groups apart, as JSON by name."""
    mine = record.learner_settings | record.environment_settings | record.agent_settings
    left_out = plumbing(record.agent) | {"game"}
    return {name: json.dumps(value, sort_keys=True) for name, value in mine.items() if name not in left_out}
