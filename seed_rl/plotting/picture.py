"""Draws run directories in a style, and writes the plot to a file."""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from seed_rl.plotting import canvas
from seed_rl.plotting.canvas import Stroke, make_panels
from seed_rl.plotting.config import PlotConfig
from seed_rl.plotting.gather import gather
from seed_rl.plotting.groups import Group, Task, by_task
from seed_rl.plotting.labels import (
    Unit,
    axis_unit,
    group_labels,
    metric_label,
    task_labels,
    variant_labels,
    where_measured,
)
from seed_rl.plotting.lines import Line, group_line, median_line


def draw_runs(paths: Iterable[str | Path], config: PlotConfig) -> None:
    """Draws the runs of all paths (see `gather.find_runs`) into the file of `config`.

    Prints how many there are and, on standard error, a line about each run that is left out.

    Raises:
      ValueError: runs cannot be found, read, or drawn in this style; the message is one sentence.
      OSError: the file cannot be written.
    """
    assert config.output is not None
    groups, left_out = gather(paths, config.metric, leave_out=config.style == "sorted")
    figure = draw(groups, config)
    for logdir in left_out:
        print(f"Left out because it has no {config.metric or 'return'} yet: {logdir}", file=sys.stderr)
    canvas.save(figure, Path(config.output))
    runs = sum(len(group.runs) for group in groups)
    print(f"Drew {_count(runs, 'run')} in {_count(len(groups), 'group')}: {config.output}")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def draw(groups: Sequence[Group], config: PlotConfig) -> Figure:
    """Draws groups in the style that the settings choose.

    Raises:
      ValueError: the runs cannot be drawn in this style; the message is one sentence.
    """
    styles = {
        "curves": _draw_curves,
        "grid": _draw_grid,
        "median_human_normalized": _draw_median,
        "sorted": _draw_sorted,
    }
    with matplotlib.rc_context(canvas.STYLE):
        return styles[config.style](groups, config)


_CURVES_HEIGHT, _MEDIAN_HEIGHT = 3.4, 4.0
_HIGHLIGHTED = 5
_GREY: Stroke = {"color": "#BBBBBB", "linewidth": 1.0}


def _draw_curves(groups: Sequence[Group], config: PlotConfig) -> Figure:
    """Draws the metric against environment frames and against time, side by side; one line per group.

    More groups than colours would clutter the plot: then the five that end highest are named, and the others
    are grey. The most important groups are drawn last, so that they lie on top.
    """
    named = [group for same in by_task(groups).values() for group in same]
    others: list[Group] = []
    if len(named) > len(canvas.COLORS):
        named.sort(key=lambda group: -group.final)
        named, others = named[:_HIGHLIGHTED], named[_HIGHLIGHTED:]
    labels = group_labels(named)
    strokes = dict(zip(named, canvas.strokes(labels), strict=True))
    if others:
        labels.append(f"{len(others)} others, which end lower")
        strokes |= dict.fromkeys(others, _GREY)
        strokes[others[0]] = {**_GREY, "label": labels[-1]}
    figure = canvas.new_figure(_CURVES_HEIGHT)
    panels = figure.subplots(1, 2, sharey=True)
    for panel, axis in zip(panels, ("env_frames", "seconds"), strict=True):
        lines = {group: group_line(group, axis) for group in strokes}
        unit = axis_unit(axis, lines.values())
        for group, stroke in reversed(strokes.items()):
            line = lines[group]._replace(low=None, high=None) if group in others else lines[group]
            canvas.draw_line(panel, line, unit, stroke)
        panel.set_xlabel(unit.label)
        panel.set_xlim(left=0)
    panels[0].set_ylabel(_metric(groups))
    tasks = list(task_labels(group.task for group in groups).values())
    title = tasks[0] if len(tasks) == 1 else ""
    if len(groups) == 1:
        title += f": {groups[0].variant.agent}"
        labels = labels if len(groups[0].runs) > 1 else []
    return canvas.finish(figure, panels, labels, config, title)


def _draw_grid(groups: Sequence[Group], config: PlotConfig) -> Figure:
    """Draws a small panel for each game, with all agents in each, as in Figure 7 of the SEED RL paper."""
    labels = variant_labels(groups)
    strokes = dict(zip(labels, canvas.strokes(labels.values()), strict=True))
    lines = {group: group_line(group, "env_frames") for group in groups}
    unit = axis_unit("env_frames", lines.values())
    tasks = by_task(groups)
    figure, panels = make_panels(tasks, unit.label, _metric(groups))
    for task, panel in panels.items():
        for group in reversed(tasks[task]):
            canvas.draw_line(panel, lines[group], unit, strokes[group.variant])
        panel.set_xlim(left=0)
    return canvas.finish(figure, panels.values(), labels.values(), config)


_NOTE = "Bands: 95% confidence intervals, runs of each game drawn separately (stratified bootstrap)"


def _draw_median(groups: Sequence[Group], config: PlotConfig) -> Figure:
    """Draws the median over games of the human-normalized return, as in Figure 6 of the SEED RL paper.

    Each agent and setting has a line, up to the frames that it has reached in all games.
    """
    labels = variant_labels(groups)
    tasks = list(by_task(groups))
    of_kind = {kind: [group for group in groups if group.variant == kind] for kind in labels}
    lines = {kind: median_line(mine) for kind, mine in of_kind.items()}
    for kind, label in labels.items():
        _check_games(label, [group.task for group in of_kind[kind]], tasks)
    unit = axis_unit("env_frames", lines.values())
    figure = canvas.new_figure(_MEDIAN_HEIGHT)
    panel = figure.subplots()
    for line, stroke in reversed(list(zip(lines.values(), canvas.strokes(labels.values()), strict=True))):
        canvas.draw_line(panel, line, unit, stroke)
    panel.set_xlabel(unit.label)
    panel.set_ylabel(f"median human-normalized return\nover {_count(len(tasks), 'game')} (percent)")
    panel.set_xlim(left=0)
    return canvas.finish(figure, [panel], labels.values(), config, band_note=_NOTE)


def _check_games(label: str, mine: Sequence[Task], all_tasks: Sequence[Task]) -> None:
    """Refuses an agent that lacks a game: medians over different games cannot be compared."""
    names = task_labels(all_tasks)
    missing = [names[task] for task in all_tasks if task not in mine]
    if missing:
        raise ValueError(
            f"{label} has no run of {', '.join(missing)}, and medians over different games cannot be "
            "compared; name runs of the same games for every agent."
        )


def _draw_sorted(groups: Sequence[Group], config: PlotConfig) -> Figure:
    """Draws final returns from best to worst, a panel for each game, as in Figure 4 of the SEED RL paper.

    Each agent has a line: the final values of its combinations of settings, sorted. A final value is the mean
    over seeds of the mean over the last tenth of each run.
    """
    agents = sorted({group.variant.agent for group in groups})
    labels = [agent + where_measured(_of_agent(groups, agent), groups) for agent in agents]
    strokes = dict(zip(agents, canvas.strokes(labels), strict=True))
    seeds = ", mean over seeds" if any(len(group.runs) > 1 for group in groups) else ""
    tasks = by_task(groups)
    figure, panels = make_panels(
        tasks, "rank of the hyperparameter combination, best first", f"final {_metric(groups)}{seeds}"
    )
    for task, panel in panels.items():
        for agent in reversed(agents):
            finals = np.sort([group.final for group in _of_agent(tasks[task], agent)])[::-1]
            if len(finals):
                line = Line(np.arange(1.0, len(finals) + 1), finals)
                canvas.draw_line(panel, line, Unit(1.0, ""), {"marker": "o", **strokes[agent]})
        panel.set_xlim(0.5, max(np.size(line.get_xdata()) for line in panel.get_lines()) + 0.5)
        panel.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    return canvas.finish(figure, panels.values(), labels, config)


def _of_agent(groups: Sequence[Group], agent: str) -> list[Group]:
    return [group for group in groups if group.variant.agent == agent]


def _metric(groups: Sequence[Group]) -> str:
    """The label of the metric that is drawn."""
    return metric_label({run.metric for group in groups for run in group.runs})
