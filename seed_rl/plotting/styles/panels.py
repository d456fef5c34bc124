"""Small panels, one per game: how many in a row, how high, and what they share."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure

from seed_rl.plotting import canvas
from seed_rl.plotting.groups import Task
from seed_rl.plotting.labels import task_labels

_MOST_COLUMNS = 6
_ASPECT = 0.72
_HIGHEST_ROW = 3.2  # Inches.
_SMALL = 4  # From this many columns on, panels have small type.


class Panels(NamedTuple):
    """A figure, its part above the legend, and the panel of each game in that part."""

    figure: Figure
    body: SubFigure
    by_task: dict[Task, Axes]

    @property
    def axes(self) -> list[Axes]:
        """All panels."""
        return list(self.by_task.values())

    def name_axes(self, x: str, y: str) -> None:
        """Sets the axis labels that all panels share."""
        self.body.supxlabel(x, fontsize=10)
        self.body.supylabel(y, fontsize=10)


def make_panels(tasks: Iterable[Task], labels: Sequence[str]) -> Panels:
    """Empty panels with the games' names above them.

    Args:
      tasks: the games, in order.
      labels: the legend's labels, for which space is kept.
    """
    names = task_labels(tasks)
    columns = _columns(len(names))
    rows = -(-len(names) // columns)
    row_height = min(_HIGHEST_ROW, _ASPECT * canvas.WIDTH / columns + 0.25)
    figure = canvas.new_figure(rows * row_height + 0.3, labels)
    body = figure.add_subfigure(figure.add_gridspec(1, 1)[0])
    grid = list(body.subplots(rows, columns, squeeze=False).flat)
    small = columns >= _SMALL
    found = {}
    for panel, (task, name) in zip(grid, names.items(), strict=False):
        panel.set_title(name, fontsize=8 if small else 10)
        panel.tick_params(labelsize=7 if small else 9)
        found[task] = panel
    for panel in grid[len(names) :]:
        panel.remove()
    return Panels(figure, body, found)


def _columns(count: int) -> int:
    """The number of columns: nearly as many as rows, and a single row for up to three panels."""
    if count <= 3:
        return count
    return next((n for n in range(2, _MOST_COLUMNS) if n * n >= count), _MOST_COLUMNS)
