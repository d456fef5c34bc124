"""The metric against environment frames and against time, side by side; one line per group."""

from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.figure import Figure

from seed_rl.plotting import canvas
from seed_rl.plotting.canvas import Stroke
from seed_rl.plotting.config import PlotConfig
from seed_rl.plotting.groups import Group, by_task, variants
from seed_rl.plotting.labels import frames_unit, group_labels, metric_label, task_labels, time_unit
from seed_rl.plotting.lines import Axis, Line, group_line

_HEIGHT = 3.4
_HIGHLIGHTED = 5
_AXES: tuple[Axis, ...] = ("env_frames", "seconds")
_GREY = Stroke(canvas.REST_COLOR, width=1.0)


class _Drawn(NamedTuple):
    """A group and how it is drawn; it is not in the legend if its label is None."""

    group: Group
    stroke: Stroke
    label: str | None
    has_band: bool = True


def draw(groups: Sequence[Group], config: PlotConfig) -> Figure:
    """Draws the groups.

    More groups than colours would clutter the plot: then the five that end highest are named, and the others
    are grey.

    Raises:
      ValueError: the runs of a group have no range of frames in common.
    """
    drawn = _plan(groups)
    labels = [each.label for each in reversed(drawn) if each.label is not None]
    if len(groups) == 1 and len(groups[0].runs) == 1:
        labels = []
    figure = canvas.new_figure(_HEIGHT, labels)
    panels = figure.subplots(1, 2, sharey=True)
    for panel, axis in zip(panels, _AXES, strict=True):
        lines = [_line(each, axis) for each in drawn]
        highest = max(float(line.x[-1]) for line in lines)
        unit = frames_unit(highest) if axis == "env_frames" else time_unit(highest)
        for each, line in zip(drawn, lines, strict=True):
            canvas.draw_line(panel, line, unit, each.stroke, each.label)
        panel.set_xlabel(unit.label)
        panel.set_xlim(left=0)
        canvas.finish_panel(panel, config.lowest, config.highest)
    panels[0].set_ylabel(metric_label({run.metric for group in groups for run in group.runs}))
    has_band = any(each.has_band and len(each.group.runs) > 1 for each in drawn)
    canvas.draw_legend(figure, panels, labels, canvas.BAND_NOTE if has_band else "")
    canvas.draw_title(figure, config.title, _title(groups))
    return figure


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
    grey = [_Drawn(group, _GREY, None, has_band=False) for group in others]
    if grey:
        grey[0] = grey[0]._replace(label=f"{len(grey)} others, which end lower")
    named = [
        _Drawn(group, stroke, label)
        for group, stroke, label in zip(
            ordered, canvas.strokes(len(ordered)), group_labels(ordered), strict=True
        )
    ]
    return [*grey, *reversed(named)]


def _line(drawn: _Drawn, axis: Axis) -> Line:
    line = group_line(drawn.group, axis)
    return line if drawn.has_band else line._replace(low=None, high=None)


def _title(groups: Sequence[Group]) -> str:
    """The game if there is only one, and the agent if there is only one group."""
    tasks = task_labels(group.task for group in groups)
    if len(tasks) > 1:
        return ""
    (title,) = tasks.values()
    return f"{title}: {groups[0].variant.agent}" if len(groups) == 1 else title
