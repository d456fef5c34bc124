"""Groups runs that differ only in the seed and in plumbing, and finds what differs between groups."""

import dataclasses
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from seed_rl.runs.curves import Curve, final_value
from seed_rl.runs.record import RunRecord, plumbing


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

    @property
    def has_distinct_seeds(self) -> bool:
        """Whether no two runs have the same seed."""
        return len({run.record.learner_settings["seed"] for run in self.runs}) == len(self.runs)


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
    targets. ε-Rainbow (Stooke & Abbeel, 2018) explores with an epsilon in place of the noise. Noisy
    dueling networks, quantiles and Munchausen's target are only a part of Beyond The Rainbow (BTR; Clark et
    al., 2024). An agent of another package keeps the name that it is registered with.
    """
    if run.agent == "dqn":
        return _dqn_name(run.agent_settings)
    return _NAMES.get(run.agent, run.agent)


def _dqn_name(settings: Mapping[str, Any]) -> str:
    is_noisy = settings["exploration"] == "noisy"
    has_common = settings["dueling"] and settings["n_steps"] > 1 and settings["priority_exponent"] > 0
    if has_common and settings["double"] and settings["distribution"] == "categorical":
        return "Rainbow" if is_noisy else "ε-Rainbow"
    if has_common and is_noisy and settings["munchausen"] and settings["distribution"] == "quantile":
        return "BTR in part"
    return _NAMES["dqn"]
