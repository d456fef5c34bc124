"""Final returns from best to worst, a panel for each game, as in Figure 4 of the SEED RL paper."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from seed_rl.plotting import canvas
from seed_rl.plotting.config import PlotConfig
from seed_rl.plotting.groups import Group, by_task
from seed_rl.plotting.labels import Unit, metric_label, where_measured
from seed_rl.plotting.lines import Line
from seed_rl.plotting.styles.panels import make_panels


def draw(groups: Sequence[Group], config: PlotConfig) -> Figure:
    """Draws a line for each agent in each game: the final values of its combinations of settings, sorted.

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
        canvas.finish_panel(panel, config.lowest, config.highest)
    label = metric_label({run.metric for group in groups for run in group.runs})
    seeds = ", mean over seeds" if any(len(group.runs) > 1 for group in groups) else ""
    panels.name_axes("rank of the hyperparameter combination, best first", f"final {label}{seeds}")
    canvas.draw_legend(panels.figure, panels.axes, list(labels.values()))
    canvas.draw_title(panels.figure, config.title)
    return panels.figure


def _finals(groups: Sequence[Group]) -> np.ndarray:
    """The final value of every combination, float64 `[groups]`, highest first."""
    return np.sort([group.final for group in groups])[::-1]
