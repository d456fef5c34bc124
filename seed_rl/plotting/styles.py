"""The styles of plots: each draws groups of runs into a figure."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from seed_rl.plotting import canvas
from seed_rl.plotting.canvas import Stroke, make_panels
from seed_rl.plotting.config import PlotConfig
from seed_rl.plotting.groups import Group, Task, by_task, variants
from seed_rl.plotting.labels import (
    Unit,
    frames_unit,
    group_labels,
    metric_label,
    task_labels,
    time_unit,
    variant_labels,
    where_measured,
)
from seed_rl.plotting.lines import Axis, Line, group_line, median_line

_CURVES_HEIGHT = 3.4
_HIGHLIGHTED = 5
_AXES: tuple[Axis, ...] = ("env_frames", "seconds")
_GREY = Stroke(canvas.REST_COLOR, width=1.0)


class _Drawn(NamedTuple):
    """A group and how it is drawn; it is not in the legend if its label is None."""

    group: Group
    stroke: Stroke
    label: str | None


def draw_curves(groups: Sequence[Group], config: PlotConfig) -> Figure:
    """Draws the metric against environment frames and against time, side by side; one line per group.

    More groups than colours would clutter the plot: then the five that end highest are named, and the others
    are grey.

    Raises:
      ValueError: the runs of a group have no range of frames in common.
    """
    drawn = _plan(groups)
    labels = [each.label for each in reversed(drawn) if each.label is not None]
    if len(groups) == 1 and len(groups[0].runs) == 1:
        labels = []
    figure = canvas.new_figure(_CURVES_HEIGHT, labels)
    panels = figure.subplots(1, 2, sharey=True)
    for panel, axis in zip(panels, _AXES, strict=True):
        lines = [group_line(each.group, axis) for each in drawn]
        highest = max(float(line.x[-1]) for line in lines)
        unit = frames_unit(highest) if axis == "env_frames" else time_unit(highest)
        for each, line in zip(drawn, lines, strict=True):
            if each.stroke is _GREY:
                line = line._replace(low=None, high=None)
            canvas.draw_line(panel, line, unit, each.stroke, each.label)
        panel.set_xlabel(unit.label)
        panel.set_xlim(left=0)
    panels[0].set_ylabel(metric_label({run.metric for group in groups for run in group.runs}))
    return canvas.finish(figure, panels, labels, config, _title(groups))


def _plan(groups: Sequence[Group]) -> list[_Drawn]:
    """What to draw, with the most important groups last, so that they lie on top."""
    order = variants(groups)
    ordered = [
        g for same in by_task(groups).values() for g in sorted(same, key=lambda g: order.index(g.variant))
    ]
    others: list[Group] = []
    if len(ordered) > canvas.COLORS:
        ordered = sorted(ordered, key=lambda group: -group.final)
        ordered, others = ordered[:_HIGHLIGHTED], ordered[_HIGHLIGHTED:]
    grey = [_Drawn(group, _GREY, None) for group in others]
    if grey:
        grey[0] = grey[0]._replace(label=f"{len(grey)} others, which end lower")
    named = [
        _Drawn(group, stroke, label)
        for group, stroke, label in zip(
            ordered, canvas.strokes(len(ordered)), group_labels(ordered), strict=True
        )
    ]
    return [*grey, *reversed(named)]


def _title(groups: Sequence[Group]) -> str:
    """The game if there is only one, and the agent if there is only one group."""
    tasks = task_labels(group.task for group in groups)
    if len(tasks) > 1:
        return ""
    (title,) = tasks.values()
    return f"{title}: {groups[0].variant.agent}" if len(groups) == 1 else title


def draw_grid(groups: Sequence[Group], config: PlotConfig) -> Figure:
    """Draws a small panel for each game, with all agents in each, as in Figure 7 of the SEED RL paper.

    Raises:
      ValueError: the runs of a group have no range of frames in common, or there are too many settings.
    """
    kinds = variants(groups)
    labels = variant_labels(groups)
    strokes = dict(zip(kinds, canvas.strokes(len(kinds)), strict=True))
    tasks = by_task(groups)
    panels = make_panels(tasks, list(labels.values()))
    lines = {group: group_line(group, "env_frames") for group in groups}
    unit = frames_unit(max(float(line.x[-1]) for line in lines.values()))
    for task, panel in panels.by_task.items():
        for group in sorted(tasks[task], key=lambda group: kinds.index(group.variant), reverse=True):
            variant = group.variant
            canvas.draw_line(panel, lines[group], unit, strokes[variant], labels[variant])
        panel.set_xlim(left=0)
    panels.name_axes(unit.label, metric_label({run.metric for group in groups for run in group.runs}))
    return canvas.finish(panels.figure, panels.axes, list(labels.values()), config)


_MEDIAN_HEIGHT = 4.0
_NOTE = "Bands: 95% confidence intervals, runs of each game drawn separately (stratified bootstrap)"


def draw_median(groups: Sequence[Group], config: PlotConfig) -> Figure:
    """Draws the median over games of the human-normalized return, as in Figure 6 of the SEED RL paper.

    Each agent and setting has a line, up to the frames that it has reached in all games.

    Raises:
      ValueError: there are no published scores for a game, two agents do not have the same games, or the runs
        of one have no range of frames in common.
    """
    kinds = variants(groups)
    labels = variant_labels(groups)
    of_kind = {kind: [group for group in groups if group.variant == kind] for kind in kinds}
    tasks = by_task(groups)
    lines = {kind: median_line(of_kind[kind]) for kind in kinds}
    for kind in kinds:
        _check_games(labels[kind], [group.task for group in of_kind[kind]], list(tasks))
    unit = frames_unit(max(float(line.x[-1]) for line in lines.values()))
    figure = canvas.new_figure(_MEDIAN_HEIGHT, list(labels.values()))
    panel = figure.subplots()
    for kind, stroke in reversed(list(zip(kinds, canvas.strokes(len(kinds)), strict=True))):
        canvas.draw_line(panel, lines[kind], unit, stroke, labels[kind])
    panel.set_xlabel(unit.label)
    games = "1 game" if len(tasks) == 1 else f"{len(tasks)} games"
    panel.set_ylabel(f"median human-normalized return\nover {games} (percent)")
    panel.set_xlim(left=0)
    return canvas.finish(figure, [panel], list(labels.values()), config, band_note=_NOTE)


def _check_games(label: str, mine: Sequence[Task], all_tasks: Sequence[Task]) -> None:
    """Refuses an agent that lacks a game: medians over different games cannot be compared."""
    names = task_labels(all_tasks)
    missing = [names[task] for task in all_tasks if task not in mine]
    if missing:
        raise ValueError(
            f"{label} has no run of {', '.join(missing)}, and medians over different games cannot be "
            "compared; name runs of the same games for every agent."
        )


def draw_sorted(groups: Sequence[Group], config: PlotConfig) -> Figure:
    """Draws final returns from best to worst, a panel for each game, as in Figure 4 of the SEED RL paper.

    Each agent has a line: the final values of its combinations of settings, sorted.

    A final value is the mean over seeds of the mean over the last tenth of each run.

    Raises:
      ValueError: there are too many agents.
    """
    agents = sorted({group.variant.agent for group in groups})
    of_agent = {agent: [group for group in groups if group.variant.agent == agent] for agent in agents}
    labels = {agent: agent + where_measured(of_agent[agent], groups) for agent in agents}
    strokes = dict(zip(agents, canvas.strokes(len(agents)), strict=True))
    panels = make_panels(by_task(groups), list(labels.values()))
    for task, panel in panels.by_task.items():
        for agent in reversed(agents):
            finals = _finals([group for group in of_agent[agent] if group.task == task])
            if len(finals):
                line = Line(np.arange(1.0, len(finals) + 1), finals)
                canvas.draw_line(panel, line, Unit(1.0, ""), strokes[agent], labels[agent], is_dotted=True)
        panel.set_xlim(0.5, max(np.size(line.get_xdata()) for line in panel.get_lines()) + 0.5)
        panel.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    label = metric_label({run.metric for group in groups for run in group.runs})
    seeds = ", mean over seeds" if any(len(group.runs) > 1 for group in groups) else ""
    panels.name_axes("rank of the hyperparameter combination, best first", f"final {label}{seeds}")
    return canvas.finish(panels.figure, panels.axes, list(labels.values()), config)


def _finals(groups: Sequence[Group]) -> np.ndarray:
    """The final value of every combination, float64 `[groups]`, highest first."""
    return np.sort([group.final for group in groups])[::-1]
