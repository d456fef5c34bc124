"""A table of runs, one row per group."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from seed_rl.plotting.groups import Group, by_task
from seed_rl.plotting.labels import task_labels, variant_labels
from seed_rl.plotting.render import Row, Table, cell
from seed_rl.runs.scores import published_scores

_NOTE = (
    "Frames are environment frames. Frames, minutes and returns are means over seeds; ± is the standard\n"
    "error. The last return is the mean over the last tenth of a run; the best return is its highest period."
)


class RunRow(NamedTuple):
    """A group of runs that differ only in their seed.

    Attributes:
      task: the game.
      agent: the method, and the settings that tell it from the other rows.
      seeds: number of runs.
      frames: environment frames per run, the mean over runs.
      minutes: of training, the mean over runs.
      frames_per_second: environment frames of all runs by their seconds of training.
      last_return: mean over runs of the mean over the last tenth of each.
      standard_error: of `last_return`; None for a single run.
      best_return: mean over runs of the highest period of each.
      human_normalized: `last_return` in percent of the human score; None if there are no published scores.
    """

    task: str
    agent: str
    seeds: int
    frames: float
    minutes: float
    frames_per_second: float
    last_return: float
    standard_error: float | None
    best_return: float
    human_normalized: float | None


def run_table(groups: Sequence[Group], label: str | None = None) -> Table:
    """The table of `rows`, which has the arguments and says what is raised."""
    columns = {
        "task": cell("task"),
        "agent": cell("agent"),
        "seeds": cell("seeds"),
        "frames": cell("frames", ",.0f"),
        "minutes": cell("minutes", ",.1f"),
        "frames/s": cell("frames_per_second", ",.0f"),
        "last return": _last_return,
        "best return": cell("best_return", ",.2f"),
        "human-normalized": lambda row: "" if (p := row["human_normalized"]) is None else f"{p:,.1f}%",
    }
    table = [row._asdict() for row in rows(groups, label)]
    return Table(table, columns, ("task", "agent"), _NOTE)


def _last_return(row: Row) -> str:
    error = row["standard_error"]
    return f"{row['last_return']:,.2f}" + ("" if error is None else f" ± {error:,.2f}")


def rows(groups: Sequence[Group], label: str | None = None) -> list[RunRow]:
    """The rows, games in alphabetical order and groups in the order of their labels.

    Args:
      groups: what `gather` has found, measured by its return.
      label: names from the user; see `variant_labels`, which also says what is raised.
    """
    names = variant_labels(groups, label)
    order = list(names)
    tasks = by_task(groups)
    titles = task_labels(tasks)
    return [
        _row(group, titles[task], names[group.variant])
        for task, alike in tasks.items()
        for group in sorted(alike, key=lambda group: order.index(group.variant))
    ]


def _row(group: Group, task: str, agent: str) -> RunRow:
    frames = np.array([run.curve.env_frames[-1] for run in group.runs])
    seconds = np.array([run.curve.seconds[-1] for run in group.runs])
    finals, count = group.finals, len(group.runs)
    scores = published_scores(*group.task)
    return RunRow(
        task=task,
        agent=agent,
        seeds=count,
        frames=float(frames.mean()),
        minutes=float(seconds.mean()) / 60,
        frames_per_second=float(frames.sum() / max(seconds.sum(), 1e-9)),
        last_return=group.final,
        standard_error=float(np.std(finals, ddof=1) / np.sqrt(count)) if count > 1 else None,
        best_return=float(np.mean([run.curve.value.max() for run in group.runs])),
        human_normalized=scores.human_normalized(group.final) if scores else None,
    )
