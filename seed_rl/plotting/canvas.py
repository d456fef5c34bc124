"""The look that all plots share: sizes, colours, axes, and a legend below that never covers a curve."""

import itertools
import textwrap
from collections.abc import Collection, Iterable, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from seed_rl.files import replacing
from seed_rl.plotting.config import PlotConfig
from seed_rl.plotting.groups import Task
from seed_rl.plotting.labels import Unit, task_labels
from seed_rl.plotting.lines import Line

STYLE: Any = {
    "axes.axisbelow": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.dpi": 200,
    "figure.labelsize": 10,
    "figure.titlesize": 12,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "legend.title_fontsize": 8,
    "lines.linewidth": 1.6,
    "lines.markersize": 4,
    "text.parse_math": False,  # Dollar signs in names are dollar signs.
}
WIDTH = 9.0  # Inches: 900 pixels in the README, at twice the resolution.

# Okabe and Ito's palette, which colour-blind readers can tell apart, without its yellow (too light on white).
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_STROKES = cycler(linestyle=("-", "--", ":", "-.")) * cycler(color=COLORS)
_CROWDED = 0.15  # Of the vertical axis: two names that are closer would cover each other.
_LEGEND_CHARACTERS = 120  # Characters that fit in a row, in the legend's font.

# How a line is drawn: arguments of matplotlib's `plot`.
Stroke = dict[str, Any]


def strokes(labels: Collection[str]) -> list[Stroke]:
    """Strokes that can be told apart, one for each label: seven colours, then the same colours with dashes.

    Raises:
      ValueError: there are too many labels; the message is one sentence.
    """
    if len(labels) > len(_STROKES):
        raise ValueError(
            f"{len(labels)} kinds of line cannot be told apart in one plot; pass fewer runs, or choose "
            "--style=sorted."
        )
    return [{**stroke, "label": label} for stroke, label in zip(_STROKES, labels, strict=False)]


def new_figure(height: float) -> Figure:
    """An empty figure of the standard width, with this height in inches for all but the legend."""
    return Figure((WIDTH, height), layout="constrained")


def draw_line(panel: Axes, line: Line, unit: Unit, stroke: Stroke) -> None:
    """Draws a line, and its band if it has one; a single point is a dot."""
    x = line.x / unit.size
    marker = "o" if len(x) == 1 else None
    panel.plot(x, line.y, **{"marker": marker, **stroke})
    if line.low is not None and line.high is not None:
        panel.fill_between(x, line.low, line.high, color=stroke["color"], alpha=0.2, linewidth=0)


def draw_seeds(panel: Axes, seeds: Sequence[Line], mean: Line | None, unit: Unit, stroke: Stroke) -> None:
    """Draws the mean over seeds with its band, and each seed thinly.

    Without a mean, the seeds are drawn as the group's lines.
    """
    if mean is None:
        draw_line(panel, seeds[0], unit, stroke)
        seeds, thin = seeds[1:], {**stroke, "label": None}
    else:
        draw_line(panel, mean, unit, stroke)
        thin = {**stroke, "label": None, "linewidth": 0.6, "alpha": 0.5}
    if mean is None or len(seeds) > 1:
        for line in seeds:
            draw_line(panel, line, unit, thin)


def draw_references(panel: Axes, references: Mapping[str, float], with_names: bool = True) -> None:
    """Draws a level line for each known score, and its name right of the panel; to be called last.

    Where two scores are so close that one name would cover the other, the lower name is below its line and
    the higher one above.
    """
    for name, value in references.items():
        panel.axhline(value, color="#666666", linewidth=0.8, linestyle=(0, (1, 2)), label=f"_{name}")
    low, high = panel.get_ylim()
    place = dict.fromkeys(references.values(), "center")
    for lower, upper in itertools.pairwise(sorted(references.values())):
        if upper - lower < _CROWDED * (high - low):
            place[upper] = "bottom"
            place[lower] = "top" if place[lower] == "center" else place[lower]
    for name, value in references.items() if with_names else ():
        panel.annotate(
            f"{name}\n{value:,.0f}" if abs(value) >= 1000 else f"{name}\n{value:.4g}",
            (1.0, value),
            xycoords=panel.get_yaxis_transform(),
            xytext=(2, 0),
            textcoords="offset points",
            fontsize=7,
            color="#444444",
            va=place[value],
            linespacing=0.9,
            annotation_clip=True,
        )


def finish(
    figure: Figure,
    panels: Iterable[Axes],
    labels: Collection[str],
    config: PlotConfig,
    title: str = "",
    note: str = "",
) -> Figure:
    """Sets grid, limits, legend and title after all lines are drawn; returns the figure.

    Args:
      figure: the figure, which grows by the height of the legend.
      panels: the panels with the lines; the first line with a label stands for all others.
      labels: the labels of the one legend below all panels, in order; no legend is drawn if there are none.
      config: limits of the vertical axis, and the title.
      title: the title unless `config` has one.
      note: text above the labels that says what thin lines and bands are, if any are drawn.
    """
    handles: dict[str, Any] = {}
    for panel in panels:
        panel.grid(alpha=0.25, linewidth=0.6)
        panel.set_ylim(config.lowest, config.highest)
        if np.max(np.abs(panel.get_ylim())) >= 1e4:
            panel.yaxis.set_major_formatter(EngFormatter(sep=""))
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    if labels:
        longest = max(map(len, labels)) + 6  # The handle and the gap.
        legend = figure.legend(
            [handles[label] for label in labels],
            [textwrap.fill(label, _LEGEND_CHARACTERS) for label in labels],
            loc="outside lower center",
            ncols=max(1, min(len(labels), _LEGEND_CHARACTERS // longest)),
            title=note or None,
        )
        figure.set_figheight(figure.get_figheight() + legend.get_window_extent().height / figure.dpi)
    if title := title if config.title is None else config.title:
        figure.suptitle(title)
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
    with replacing(path) as file:
        file.write(content.getvalue())


_MOST_COLUMNS = 6
_ASPECT = 0.72
_HIGHEST_ROW = 3.2  # Inches.
_SMALL = 4  # From this many columns on, panels have small type.


def make_panels(tasks: Iterable[Task], y: str, *xs: str) -> tuple[Figure, list[dict[Task, Axes]]]:
    """A figure with an empty panel for each game, in order, below its name; `y` labels all vertical axes.

    There are as many sets of panels, one below the other, as there are labels `xs` of horizontal axes.
    """
    names = task_labels(tasks)
    columns = _panel_columns(len(names), single_row=3 if len(xs) == 1 else 4)
    rows = -(-len(names) // columns)
    row_height = min(_HIGHEST_ROW, _ASPECT * WIDTH / columns + 0.25)
    figure = new_figure(len(xs) * (rows * row_height + 0.3))
    small = columns >= _SMALL
    sets = []
    # Without subfigures, the labels would lie on the legend.
    for body, x in zip(figure.subfigures(len(xs), 1, squeeze=False).flat, xs, strict=True):
        body.supxlabel(x)
        body.supylabel(y)
        grid = list(body.subplots(rows, columns, squeeze=False).flat)
        for panel, name in zip(grid, names.values(), strict=False):
            panel.set_title(name, fontsize=8 if small else 10)
            panel.tick_params(labelsize=7 if small else 9)
        for panel in grid[len(names) :]:
            panel.remove()
        sets.append(dict(zip(names, grid, strict=False)))
    return figure, sets


def _panel_columns(count: int, single_row: int) -> int:
    """The number of columns: nearly as many as rows, and as many as panels if those fit in a single row."""
    if count <= single_row:
        return count
    return next((n for n in range(2, _MOST_COLUMNS) if n * n >= count), _MOST_COLUMNS)
