"""A small panel for each game, with all agents in each, as in Figure 7 of the SEED RL paper."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from seed_rl.plotting import canvas
from seed_rl.plotting.config import PlotConfig
from seed_rl.plotting.groups import Group, by_task, variants
from seed_rl.plotting.labels import frames_unit, metric_label, variant_labels
from seed_rl.plotting.lines import group_line
from seed_rl.plotting.styles.panels import make_panels


def draw(groups: Sequence[Group], config: PlotConfig) -> Figure:
    """Draws the groups.

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
        canvas.finish_panel(panel, config.lowest, config.highest)
    panels.name_axes(unit.label, metric_label({run.metric for group in groups for run in group.runs}))
    has_band = any(line.low is not None for line in lines.values())
    note = canvas.BAND_NOTE if has_band else ""
    canvas.draw_legend(panels.figure, panels.axes, list(labels.values()), note)
    canvas.draw_title(panels.figure, config.title)
    return panels.figure
