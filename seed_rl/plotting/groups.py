"""Groups runs that differ in nothing but the seed, and finds the settings that tell the groups apart."""

import dataclasses
import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from seed_rl.algorithms import registry as algorithms
from seed_rl.learner.config import LearnerConfig
from seed_rl.options import Options
from seed_rl.runs.curves import Curve, final_value
from seed_rl.runs.record import RunRecord


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
    """An agent and the settings, as JSON, that distinguish it from other variants of the agent."""

    agent: str
    settings: tuple[tuple[str, str], ...] = ()


class Run(NamedTuple):
    """A run and the one metric of it that is plotted.

    Attributes:
      record: its run.json.
      metric: name of the metric.
      curve: the finite values of the metric; never empty.
    """

    record: RunRecord
    metric: str
    curve: Curve


@dataclasses.dataclass(frozen=True, eq=False)
class Group:
    """Runs that differ only in their seed and in plumbing; a group is equal only to itself."""

    task: Task
    variant: Variant
    runs: tuple[Run, ...]

    @property
    def final(self) -> float:
        """Mean over runs of the mean over the last tenth of each."""
        return float(np.mean([final_value(run.curve) for run in self.runs]))


def group_records(records: Sequence[RunRecord]) -> dict[tuple[Task, Variant], list[RunRecord]]:
    """The records that belong together, in the order of their first one.

    Two groups of the same agent on the same game differ in some setting, and every setting that differs in
    this way on any game is part of that agent's variants. Settings that differ only between games are not.
    """
    settings = [_settings(record) for record in records]
    alike: defaultdict[tuple[Task, str], list[dict[str, str]]] = defaultdict(list)
    for record, mine in zip(records, settings, strict=True):
        alike[Task.of(record), record.agent].append(mine)
    telling: defaultdict[str, set[str]] = defaultdict(set)
    for (_, agent), several in alike.items():
        telling[agent] |= {name for name in set().union(*several) if len({s.get(name) for s in several}) > 1}
    groups: defaultdict[tuple[Task, Variant], list[RunRecord]] = defaultdict(list)
    for record, mine in zip(records, settings, strict=True):
        told = tuple((name, mine.get(name, "null")) for name in sorted(telling[record.agent]))
        groups[Task.of(record), Variant(record.agent, told)].append(record)
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
    """The sort key: agents by name, and settings by value if they are numbers."""

    def order(value: Any) -> tuple[float, str]:
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return (float(value), "") if is_number else (float("-inf"), str(value))

    return variant.agent, [order(json.loads(value)) for _, value in variant.settings]


def _settings(record: RunRecord) -> dict[str, str]:
    """The settings that tell groups apart, as JSON by name."""
    mine = record.learner_settings | record.environment_settings | record.agent_settings
    left_out = plumbing(record.agent) | {"game"}
    return {name: json.dumps(value, sort_keys=True) for name, value in mine.items() if name not in left_out}


def plumbing(agent: str) -> set[str]:
    """Options that only say where a run of this algorithm trains; they do not tell groups apart."""
    classes: list[type[Options]] = [LearnerConfig]
    if agent in algorithms.names():
        classes.append(algorithms.config_class(agent))
    return {leaf.name for kind in classes for leaf in kind.leaves() if leaf.metadata.get("is_plumbing")}
