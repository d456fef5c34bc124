"""The median over games of the human-normalized return, as in Figure 6 of the SEED RL paper."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from seed_rl.plotting import canvas
from seed_rl.plotting.config import PlotConfig
from seed_rl.plotting.groups import Group, Task, by_task, variants
from seed_rl.plotting.labels import frames_unit, task_labels, variant_labels
from seed_rl.plotting.lines import median_line

_HEIGHT = 4.0
_NOTE = "Bands: 95% confidence intervals, runs of each game drawn separately (stratified bootstrap)"


def draw(groups: Sequence[Group], config: PlotConfig) -> Figure:
    """Draws a line for each agent and setting, up to the frames that it has reached in all games.

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
    figure = canvas.new_figure(_HEIGHT, list(labels.values()))
    panel = figure.subplots()
    for kind, stroke in reversed(list(zip(kinds, canvas.strokes(len(kinds)), strict=True))):
        canvas.draw_line(panel, lines[kind], unit, stroke, labels[kind])
    panel.set_xlabel(unit.label)
    games = "1 game" if len(tasks) == 1 else f"{len(tasks)} games"
    panel.set_ylabel(f"median human-normalized return\nover {games} (percent)")
    panel.set_xlim(left=0)
    canvas.finish_panel(panel, config.lowest, config.highest)
    has_band = any(line.low is not None for line in lines.values())
    canvas.draw_legend(figure, [panel], list(labels.values()), _NOTE if has_band else "")
    canvas.draw_title(figure, config.title)
    return figure


def _check_games(label: str, mine: Sequence[Task], all_tasks: Sequence[Task]) -> None:
    """Refuses an agent that lacks a game: medians over different games cannot be compared."""
    names = task_labels(all_tasks)
    missing = [names[task] for task in all_tasks if task not in mine]
    if missing:
        raise ValueError(
            f"{label} has no run of {', '.join(missing)}, and medians over different games cannot be "
            "compared; name runs of the same games for every agent."
        )
