"""Names of games, agents and groups: as short as they can be while they tell apart what is in the picture."""

import json
from collections.abc import Iterable, Sequence

from seed_rl.plotting.groups import Group, Task, Variant, variants

_DIGITS = 3


def task_labels(tasks: Iterable[Task]) -> dict[Task, str]:
    """The game, after the environment where two environments have a game of that name."""
    distinct = list(dict.fromkeys(tasks))
    short = [str(task) for task in distinct]
    return {t: str(t) if short.count(str(t)) == 1 else " ".join(filter(None, t)) for t in distinct}


def variant_labels(groups: Sequence[Group]) -> dict[Variant, str]:
    """The agent, the settings that tell it from the others here, and where it is measured; in order."""
    names = _variant_names(variants(groups))
    return {
        variant: name + where_measured([g for g in groups if g.variant == variant], groups)
        for variant, name in names.items()
    }


def group_labels(groups: Sequence[Group]) -> list[str]:
    """For each group: its game where there are several, agent, settings, and how many runs are averaged."""
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
    """What to add for these groups where others that are drawn are measured in training, and they are not."""

    def metrics(some: Sequence[Group]) -> set[str]:
        return {run.metric for group in some for run in group.runs}

    mine = metrics(groups)
    if len(metrics(drawn)) == 1 or "mean_evaluation_return" not in mine:
        return ""
    return ", in evaluation" if len(mine) == 1 else ", partly in evaluation"


def _variant_names(distinct: Sequence[Variant]) -> dict[Variant, str]:
    """Numbers are rounded where that keeps the names apart."""
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
