"""Groups runs that differ in nothing but the seed, and finds the settings that tell the groups apart."""

import dataclasses
import json
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

    @property
    def final(self) -> float:
        """Mean over the last tenth of the periods."""
        return final_value(self.curve)


@dataclasses.dataclass(frozen=True, eq=False)
class Group:
    """Runs that differ only in their seed and in plumbing; a group is equal only to itself."""

    task: Task
    variant: Variant
    runs: tuple[Run, ...]

    @property
    def final(self) -> float:
        """Mean over runs of their final values."""
        return float(np.mean([run.final for run in self.runs]))


class Alike(NamedTuple):
    """Records of one group, before their metrics are read."""

    task: Task
    variant: Variant
    records: tuple[RunRecord, ...]


def group_records(records: Iterable[RunRecord]) -> list[Alike]:
    """Groups of records that belong together, in the order of their first record.

    Two groups of the same agent on the same game differ in some setting, and every setting that differs in
    this way on any game is part of that agent's variants. Settings that differ only between games are not.
    """
    found: dict[tuple[Task, str, str], list[RunRecord]] = {}
    settings: dict[tuple[Task, str, str], dict[str, str]] = {}
    for record in records:
        mine = _settings(record)
        key = (Task(record.environment, record.game), record.agent, json.dumps(mine, sort_keys=True))
        found.setdefault(key, []).append(record)
        settings[key] = mine
    same_task: dict[tuple[Task, str], list[dict[str, str]]] = {}
    for (task, agent, _), mine in settings.items():
        same_task.setdefault((task, agent), []).append(mine)
    telling: dict[str, set[str]] = {}
    for (_, agent), several in same_task.items():
        telling.setdefault(agent, set()).update(_differing(several))
    return [
        Alike(key[0], _variant(key[1], settings[key], telling[key[1]]), tuple(alike))
        for key, alike in found.items()
    ]


def by_task(groups: Sequence[Group]) -> dict[Task, list[Group]]:
    """The groups of each game, in alphabetical order of the games."""
    tasks = sorted({group.task for group in groups}, key=lambda task: (str(task).lower(), task.environment))
    return {task: [group for group in groups if group.task == task] for task in tasks}


def variants(groups: Iterable[Group]) -> list[Variant]:
    """The distinct variants, in order."""
    return sorted({group.variant for group in groups}, key=_order)


def _order(variant: Variant) -> tuple[str, list[tuple[float, str]]]:
    """The sort key: agents by name, and settings by value if they are numbers."""

    def order(value: Any) -> tuple[float, str]:
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return (float(value), "") if is_number else (float("-inf"), str(value))

    return variant.agent, [order(json.loads(value)) for _, value in variant.settings]


def _differing(several: Sequence[dict[str, str]]) -> set[str]:
    """Names of the settings that are not the same in all, or that are missing in some."""
    names = {name for settings in several for name in settings}
    return {name for name in names if len({settings.get(name) for settings in several}) > 1}


def _variant(agent: str, settings: dict[str, str], telling: set[str]) -> Variant:
    return Variant(agent, tuple((name, settings.get(name, "null")) for name in sorted(telling)))


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
