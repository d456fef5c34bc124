"""Draws run directories in a style, and writes the plot to a file."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from seed_rl.messages import say
from seed_rl.plotting import canvas
from seed_rl.plotting.canvas import RANK, Panel, Picture, strokes
from seed_rl.plotting.config import PlotConfig
from seed_rl.plotting.groups import Found, Group, Task, Variant, by_task, gather
from seed_rl.plotting.labels import (
    axis_unit,
    metric_label,
    searches,
    span,
    task_labels,
    variant_labels,
    with_counts,
)
from seed_rl.plotting.lines import Line, group_lines, interquartile_mean, median_of_means, normalized_line
from seed_rl.runs.scores import goal, published_medians, published_scores


def draw_runs(paths: Iterable[str | Path], config: PlotConfig) -> None:
    """Draws the runs of all paths (see `find_runs`) into the file that `config.output` names.

    Prints how many there are and, on standard error, a line about each run that is skipped.

    Raises:
      ValueError: runs cannot be found or drawn in this style; the message is one sentence.
      OSError: the file cannot be written.
    """
    assert config.output is not None
    draw_found(gather(paths, config.metric), config, Path(config.output))


def draw_found(found: Found, config: PlotConfig, output: Path) -> None:
    """Draws runs that have been gathered; otherwise as `draw_runs`."""
    figure = draw(found.groups, config)
    for reason in found.skipped:
        say(f"skipped: {reason}")
    canvas.save(figure, output)
    print(f"Drew {_count(len(found.directories), 'run')} in {_count(len(found.groups), 'group')}: {output}")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def draw(groups: Sequence[Group], config: PlotConfig) -> Figure:
    """Draws groups in the style that the settings choose.

    Raises:
      ValueError: the runs cannot be drawn in this style; the message is one sentence.
    """
    styles = {"curves": _curves, "best": _best, "aggregate": _aggregate, "sorted": _sorted}
    with matplotlib.rc_context(canvas.STYLE):
        return canvas.paint(styles[config.style](groups, config), config)


_AXES = ("env_frames", "seconds")
_HIGHLIGHTED = 5
_GREY = {"color": "#BBBBBB", "linewidth": 1.0}


def _curves(groups: Sequence[Group], config: PlotConfig) -> Picture:
    """Learning curves: a panel for each game over frames, as in Figure 7 of the SEED RL paper."""
    names = with_counts(variant_labels(groups, config.label), groups)
    return _learning_curves(groups, names, config, _AXES[:1])


def _best(groups: Sequence[Group], config: PlotConfig) -> Picture:
    """The learning curve of each search's best combination, as in Figure 5 of the SEED RL paper.

    The best one ends highest. Each game has a panel over frames and, beside it, one over time.

    Raises:
      ValueError: no search has several combinations; the message is one sentence.
    """
    names: dict[Variant, str] = {}
    best: list[Group] = []
    most = 0
    for search in searches(groups, config.label):
        ranked = [search.on(task) for task in by_task(search.groups)]
        counts = [len(several) for several in ranked]
        most = max(most, *counts)
        kind = Variant(f"{search.name}, best of {span(counts)}")
        names[kind] = kind.method
        best += [dataclasses.replace(several[0], variant=kind) for several in ranked]
    if most < 2:
        raise ValueError(
            "No method has runs of several combinations of settings on one game, so none is the best; name "
            "the directory of a sweep, or choose --style=curves."
        )
    return _learning_curves(best, with_counts(names, best), config, _AXES)


def _learning_curves(
    groups: Sequence[Group], names: Mapping[Variant, str], config: PlotConfig, axes: Sequence[str]
) -> Picture:
    """The metric of each seed, and means over seeds, with a panel for each game and axis.

    A single game has both axes side by side. There, more groups than colours would clutter the plot: then the
    five that end highest are named and lie on top, and the others are grey.
    """
    titles, tasks = task_labels(by_task(groups)), by_task(groups)
    is_one = len(tasks) == 1
    labels, others = dict(names), list[Group]()
    if is_one and len(groups) > len(canvas.COLORS):
        ranked = sorted(groups, key=lambda group: -group.final)
        named, others = ranked[:_HIGHLIGHTED], ranked[_HIGHLIGHTED:]
        labels = {group.variant: names[group.variant] for group in named}
        labels |= {group.variant: f"{len(others)} others, which end lower" for group in others}
    looks = strokes(dict.fromkeys(labels.values()))
    if others:
        looks[labels[others[0].variant]] = _GREY

    def panel(task: Task, axis: str) -> Panel:
        lines: dict[str, list[Line]] = {label: [] for label in looks}
        for group in tasks[task]:
            found = group_lines(group, axis)
            if group in others:
                found = [line._replace(low=None, high=None) for line in found if not line.is_seed]
            lines[labels[group.variant]] += found
        title = "" if is_one else titles[task]
        return Panel(axis_unit(groups, axis), title, lines, _references(tasks[task]))

    title = titles[groups[0].task] if is_one else ""
    if len(groups) == 1:
        title += f": {config.label or groups[0].variant.method}"
    panels = [panel(task, axis) for task in tasks for axis in (_AXES if is_one else axes)]
    return Picture(panels, metric_label(groups), looks, title)


def _references(groups: Sequence[Group]) -> dict[str, float]:
    """Scores of a game to compare its returns with, by name; none for other metrics."""
    metrics = {run.metric for group in groups for run in group.runs}
    if not metrics <= {"mean_return", "mean_evaluation_return"}:
        return {}
    task = groups[0].task
    scores, mark = published_scores(*task), goal(*task)
    return (scores._asdict() if scores else {}) | ({} if mark is None else {"goal": mark})


def _aggregate(groups: Sequence[Group], config: PlotConfig) -> Picture:
    """The median over games and, below it, the interquartile mean of the human-normalized return.

    The median is that of Figure 6 of the SEED RL paper, over frames and over time. Each method and setting
    has a line, as far as it has come in all games.
    """
    names = variant_labels(groups, config.label)
    tasks = task_labels(by_task(groups))
    of_kind = {kind: [group for group in groups if group.variant == kind] for kind in names}
    for kind, mine in of_kind.items():
        if missing := set(tasks) - {group.task for group in mine}:
            raise ValueError(
                f"{names[kind]} has no run of {', '.join(sorted(tasks[task] for task in missing))}, and "
                "aggregates over different games cannot be compared; name runs of the same games for every "
                "method."
            )
    labels = with_counts(names, groups)
    levels = {"random": 0.0, "human": 100.0}
    published = published_medians([(task.environment, task.game) for task in tasks])
    rows = (
        ("median", median_of_means, levels | published),
        ("interquartile mean", interquartile_mean, levels),
    )
    panels = [
        Panel(
            axis_unit(groups, axis),
            f"{title} over {_count(len(tasks), 'game')}",
            {labels[k]: [normalized_line(mine, statistic, axis)] for k, mine in of_kind.items()},
            references,
        )
        for title, statistic, references in rows
        for axis in _AXES
    ]
    return Picture(panels, "human-normalized return (percent)", strokes(labels.values()))


def _sorted(groups: Sequence[Group], config: PlotConfig) -> Picture:
    """Final returns from best to worst, a panel for each game, as in Figure 4 of the SEED RL paper.

    Each search has a line: the final values of its combinations of settings, sorted. A final value is the
    mean over seeds of the mean over the last tenth of each run.
    """
    found = searches(groups, config.label)
    looks = {label: {"marker": "o", **look} for label, look in strokes([s.name for s in found]).items()}
    seeds = ", mean over seeds" if any(len(group.runs) > 1 for group in groups) else ""
    tasks, panels = by_task(groups), []
    for task, title in task_labels(tasks).items():
        finals = {search.name: np.array([group.final for group in search.on(task)]) for search in found}
        lines = {name: [Line(np.arange(1.0, len(y) + 1), y)] for name, y in finals.items() if len(y)}
        panels.append(Panel(RANK, title, lines, _references(tasks[task])))
    return Picture(panels, f"final {metric_label(groups)}{seeds}", looks)
