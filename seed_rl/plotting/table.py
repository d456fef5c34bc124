"""A table of runs, one row per group, as Markdown or CSV."""

import csv
import io
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from seed_rl.plotting.groups import Group, by_task
from seed_rl.plotting.labels import task_labels, variant_labels
from seed_rl.runs.scores import published_scores

_NOTE = (
    "Frames are environment frames. Frames, minutes and returns are means over seeds; ± is the standard\n"
    "error. The last return is the mean over the last tenth of a run; the best return is its highest period."
)


class Row(NamedTuple):
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


def rows(groups: Sequence[Group], label: str | None = None) -> list[Row]:
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


def _row(group: Group, task: str, agent: str) -> Row:
    frames = np.array([run.curve.env_frames[-1] for run in group.runs])
    seconds = np.array([run.curve.seconds[-1] for run in group.runs])
    finals, count = group.finals, len(group.runs)
    scores = published_scores(*group.task)
    return Row(
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


def as_csv(table: Sequence[Row]) -> str:
    """The table with all digits; None is an empty cell."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(Row._fields)
    writer.writerows(table)
    return text.getvalue()


# The columns of the table to read.
_COLUMNS: dict[str, Callable[[Row], str]] = {
    "task": lambda row: row.task.replace("|", r"\|"),
    "agent": lambda row: row.agent.replace("|", r"\|"),
    "seeds": lambda row: str(row.seeds),
    "frames": lambda row: f"{row.frames:,.0f}",
    "minutes": lambda row: f"{row.minutes:,.1f}",
    "frames/s": lambda row: f"{row.frames_per_second:,.0f}",
    "last return": lambda row: f"{row.last_return:,.2f}{_plus_minus(row)}",
    "best return": lambda row: f"{row.best_return:,.2f}",
    "human-normalized": lambda row: "" if row.human_normalized is None else f"{row.human_normalized:,.1f}%",
}
_WORDS = ("task", "agent")  # The other columns are numbers.


def as_markdown(table: Sequence[Row]) -> str:
    """The table with aligned columns, and below it what its figures are; no column of blanks only."""
    cells = {name: [text(row) for row in table] for name, text in _COLUMNS.items()}
    cells = {name: column for name, column in cells.items() if any(column)}
    widths = {name: max(map(len, [name, *column])) for name, column in cells.items()}

    def line(texts: Sequence[str]) -> str:
        padded = [
            text.ljust(widths[name]) if name in _WORDS else text.rjust(widths[name])
            for name, text in zip(cells, texts, strict=True)
        ]
        return f"| {' | '.join(padded)} |"

    rules = ["-" * width if name in _WORDS else "-" * (width - 1) + ":" for name, width in widths.items()]
    body = [line(texts) for texts in zip(*cells.values(), strict=True)]
    return "\n".join([line(list(cells)), line(rules), *body, "", _NOTE, ""])


def _plus_minus(row: Row) -> str:
    return "" if row.standard_error is None else f" ± {row.standard_error:,.2f}"
