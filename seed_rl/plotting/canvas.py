"""The look that all plots share: sizes, colours, axes, and a legend below that never covers a curve."""

import textwrap
from collections.abc import Iterable, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.ticker import FuncFormatter

from seed_rl.plotting.config import PlotConfig
from seed_rl.plotting.groups import Task
from seed_rl.plotting.labels import Unit, short_number, task_labels
from seed_rl.plotting.lines import Line

WIDTH = 9.0  # Inches: 900 pixels in the README, at twice the resolution.
_DPI = 200
BAND_NOTE = "Bands: 95% confidence intervals of the mean over runs (bootstrap)"

# Okabe and Ito's palette, which colour-blind readers can tell apart, without its yellow (too light on white).
_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_DASHES = ("-", "--", ":", "-.")
COLORS = len(_COLORS)
REST_COLOR = "#BBBBBB"
_LEGEND_CHARACTERS = 120  # Characters that fit in a row, in the legend's font.
_LEGEND_FONT, _LEGEND_ROW = 9, 0.2


class Stroke(NamedTuple):
    """How a line is drawn."""

    color: str
    dash: Any = "-"
    width: float = 1.6


def strokes(count: int) -> list[Stroke]:
    """Strokes that can be told apart: seven colours, then the same colours with dashes.

    Raises:
      ValueError: `count` is too large; the message is one sentence.
    """
    if count > len(_COLORS) * len(_DASHES):
        raise ValueError(
            f"{count} kinds of line cannot be told apart in one plot; pass fewer runs, or choose "
            "--style=sorted."
        )
    return [Stroke(color, dash) for dash in _DASHES for color in _COLORS][:count]


def new_figure(height: float, labels: Sequence[str]) -> Figure:
    """An empty figure of the standard width, with this height in inches and space for the legend's labels."""
    return Figure((WIDTH, height + _LEGEND_ROW * _rows(labels)), dpi=_DPI, layout="constrained")


def draw_line(
    panel: Axes, line: Line, unit: Unit, stroke: Stroke, label: str | None = None, is_dotted: bool = False
) -> None:
    """Draws a line, and its band if it has one; with dots if `is_dotted`, and for a single point."""
    x = line.x / unit.size
    marker = "o" if is_dotted or len(x) == 1 else None
    panel.plot(
        x,
        line.y,
        color=stroke.color,
        linestyle=stroke.dash,
        linewidth=stroke.width,
        marker=marker,
        markersize=4,
        label=label,
    )
    if line.low is not None and line.high is not None:
        panel.fill_between(x, line.low, line.high, color=stroke.color, alpha=0.2, linewidth=0)


def finish(
    figure: Figure,
    panels: Sequence[Axes],
    labels: Sequence[str],
    config: PlotConfig,
    title: str = "",
    band_note: str = BAND_NOTE,
) -> Figure:
    """Sets grid, spines, ticks, legend and title after all lines are drawn; returns the figure.

    Args:
      figure: the figure.
      panels: the panels with the lines; the first line with a label stands for all others.
      labels: the labels of the one legend below all panels, in order; no legend is drawn if there are none.
      config: limits of the vertical axis, and the title.
      title: the title unless `config` has one.
      band_note: a line above the labels that says what bands are, if any are drawn.
    """
    handles: dict[str, Any] = {}
    for panel in panels:
        panel.grid(alpha=0.25, linewidth=0.6)
        panel.set_axisbelow(True)
        panel.spines[["top", "right"]].set_visible(False)
        panel.set_ylim(config.lowest, config.highest)
        if np.max(np.abs(panel.get_ylim())) >= 1e4:
            panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short_number(value)))
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    if labels:
        figure.legend(
            [handles[label] for label in labels],
            [textwrap.fill(label, _LEGEND_CHARACTERS) for label in labels],
            loc="outside lower center",
            ncols=_columns(labels),
            frameon=False,
            fontsize=_LEGEND_FONT,
            title=band_note if any(panel.collections for panel in panels) else None,
            title_fontsize=_LEGEND_FONT - 1,
        )
    title = title if config.title is None else config.title
    if title:
        figure.suptitle(title, fontsize=12)
    return figure


def save(figure: Figure, path: Path) -> None:
    """Writes the figure, in the format of the file's ending and without a timestamp.

    Raises:
      OSError: the file cannot be written.
    """
    kind = path.suffix[1:].lower()
    metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
    content = BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "seed_rl", "pdf.fonttype": 42}):
        figure.savefig(content, format=kind, metadata=metadata)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.getvalue())


def _columns(labels: Sequence[str]) -> int:
    longest = max(len(label) for label in labels) + 6  # The handle and the gap.
    return max(1, min(len(labels), _LEGEND_CHARACTERS // longest))


def _rows(labels: Sequence[str]) -> int:
    """Rows of the legend, including the note's."""
    return 0 if not labels else -(-len(labels) // _columns(labels)) + 1


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
    columns = _panel_columns(len(names))
    rows = -(-len(names) // columns)
    row_height = min(_HIGHEST_ROW, _ASPECT * WIDTH / columns + 0.25)
    figure = new_figure(rows * row_height + 0.3, labels)
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


def _panel_columns(count: int) -> int:
    """The number of columns: nearly as many as rows, and a single row for up to three panels."""
    if count <= 3:
        return count
    return next((n for n in range(2, _MOST_COLUMNS) if n * n >= count), _MOST_COLUMNS)
