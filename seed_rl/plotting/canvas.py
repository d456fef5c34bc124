"""The look that all plots share: sizes, colours, axes, and a legend below that never covers a curve."""

import itertools
import math
import textwrap
from collections.abc import Collection, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator

from seed_rl.files import replacing
from seed_rl.plotting.config import PlotConfig
from seed_rl.plotting.labels import Unit
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

_MOST_COLUMNS = 6
_SMALL = 4  # From this many columns on, panels have small type.
_MEAN_NOTE = "Thick lines: the mean over seeds, as far as all of them have trained. Thin lines: single seeds."
_BAND_NOTE = (
    "Shaded: 95% confidence interval (stratified bootstrap over each game's seeds, from three seeds on)."
)

RANK = Unit(1.0, "rank of the hyperparameter combination, best first")

# The look of a line: arguments of matplotlib's `plot`.
Stroke = Mapping[str, Any]


class Panel(NamedTuple):
    """The contents of a pair of axes.

    Attributes:
      title: text above it.
      lines: by label in the legend. The first ones are drawn last, on top of the others.
      references: known scores to compare with, by name.
    """

    title: str
    lines: Mapping[str, Sequence[Line]]
    references: Mapping[str, float]


class Picture(NamedTuple):
    """The contents of a figure.

    Attributes:
      sets: panels by the unit of their horizontal axes, which may be `RANK`; equally many of each.
      y: label of the vertical axes.
      strokes: by label, in the order of the legend.
      is_beside: whether a set is a column of panels, which share vertical axes with those beside them; else
        it is a grid of panels, below that of the set before.
      has_legend: whether there is a legend.
      title: the title unless the user gives one.
    """

    sets: Mapping[Unit, Sequence[Panel]]
    y: str
    strokes: Mapping[str, Stroke]
    is_beside: bool
    has_legend: bool = True
    title: str = ""


def strokes(labels: Collection[str]) -> dict[str, Stroke]:
    """Strokes that can be told apart, one for each label: seven colours, then the same colours with dashes.

    Raises:
      ValueError: there are too many labels; the message is one sentence.
    """
    if len(labels) > len(_STROKES):
        raise ValueError(
            f"{len(labels)} kinds of line cannot be told apart in one plot; pass fewer runs, or choose "
            "--style=sorted."
        )
    return dict(zip(labels, _STROKES, strict=False))


def paint(picture: Picture, config: PlotConfig) -> Figure:
    """The figure of a picture, with the limits of the vertical axes and the title of `config`."""
    figure = Figure((WIDTH, WIDTH), layout="constrained")
    axes = _columns(figure, picture) if picture.is_beside else _grids(figure, picture)
    panels = [(x, panel) for x, several in picture.sets.items() for panel in several]
    for (x, panel), place in zip(panels, axes, strict=True):
        for label, lines in reversed(panel.lines.items()):
            for line in reversed(lines):
                _draw(place, line, x.size, label, picture.strokes[label])
        for name, value in panel.references.items():
            place.axhline(value, color="#666666", linewidth=0.8, linestyle=(0, (1, 2)), label=f"_{name}")
        place.set_xlim(left=0)
        if x is RANK:
            place.set_xlim(0.5, place.dataLim.x1 + 0.5)
            place.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        place.grid(alpha=0.25, linewidth=0.6)
    for (x, panel), place in zip(panels, axes, strict=True):  # Axes that are shared have all lines now.
        if not picture.is_beside or x is panels[-1][0]:
            _name_references(place, panel.references)
        place.set_ylim(config.lowest, config.highest)
        if np.max(np.abs(place.get_ylim())) >= 1e4:
            place.yaxis.set_major_formatter(EngFormatter(sep=""))
    if picture.has_legend:
        _add_legend(figure, picture, {line.get_label(): line for place in axes for line in place.lines})
    if title := picture.title if config.title is None else config.title:
        figure.suptitle(title)
    return figure


def _columns(figure: Figure, picture: Picture) -> list[Axes]:
    """Axes of which each set is a column."""
    (first, *_) = picture.sets.values()
    figure.set_figheight(1.2 + 2.2 * len(first))
    grid = figure.subplots(len(first), len(picture.sets), sharex="col", sharey="row", squeeze=False)
    for places, (x, panels) in zip(grid.T, picture.sets.items(), strict=True):
        for place, panel in zip(places, panels, strict=True):
            place.set_title(panel.title, fontsize=10)
        places[-1].set_xlabel(x.label)
    (grid[0, 0].set_ylabel if len(first) == 1 else figure.supylabel)(picture.y)
    return list(grid.T.flat)


def _grids(figure: Figure, picture: Picture) -> list[Axes]:
    """Axes of which each set is a grid: nearly as many columns as rows, or a single row if that has room."""
    count, num_sets = max(map(len, picture.sets.values())), len(picture.sets)
    single_row = 3 if num_sets == 1 else 4
    columns = count if count <= single_row else min(_MOST_COLUMNS, math.ceil(math.sqrt(count)))
    rows = math.ceil(count / columns)
    figure.set_figheight(num_sets * (rows * min(3.2, 0.72 * WIDTH / columns + 0.25) + 0.3))
    axes: list[Axes] = []
    # Without subfigures, the labels would lie on the legend.
    bodies = figure.subfigures(num_sets, 1, squeeze=False).flat
    for body, (x, panels) in zip(bodies, picture.sets.items(), strict=True):
        body.supxlabel(x.label)
        body.supylabel(picture.y)
        grid = list(body.subplots(rows, columns, squeeze=False).flat)
        for place, panel in zip(grid, panels, strict=False):
            place.set_title(panel.title, fontsize=8 if columns >= _SMALL else 10)
            place.tick_params(labelsize=7 if columns >= _SMALL else 9)
        for place in grid[count:]:
            place.remove()
        axes += grid[:count]
    return axes


def _draw(panel: Axes, line: Line, size: float, label: str, stroke: Stroke) -> None:
    """Draws a line with its band, if it has one, and one of several seeds thinly; a single point is a dot."""
    x, thin = line.x / size, {"linewidth": 0.6, "alpha": 0.5, "label": None}
    look = {"marker": "o" if len(x) == 1 else None, "label": label, **stroke}
    panel.plot(x, line.y, **(look | thin if line.is_seed else look))
    if line.low is not None and line.high is not None:
        panel.fill_between(x, line.low, line.high, color=stroke["color"], alpha=0.2, linewidth=0)


def _name_references(panel: Axes, references: Mapping[str, float]) -> None:
    """Writes the name of each known score right of its line.

    Where two scores are so close that one name would cover the other, the lower name is below its line and
    the higher one above.
    """
    low, high = panel.get_ylim()
    place = dict.fromkeys(references.values(), "center")
    for lower, upper in itertools.pairwise(sorted(references.values())):
        if upper - lower < _CROWDED * (high - low):
            place[upper] = "bottom"
            place[lower] = "top" if place[lower] == "center" else place[lower]
    for name, value in references.items():
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


def _add_legend(figure: Figure, picture: Picture, lines: Mapping[object, Any]) -> None:
    """Adds the one legend, given lines by label, and the height that it needs.

    Above the labels is a note on thin lines and on bands, if any are drawn.
    """
    panels = [panel for several in picture.sets.values() for panel in several]
    drawn = [line for panel in panels for lines in panel.lines.values() for line in lines]
    notes = [_MEAN_NOTE] * any(line.is_seed for line in drawn)
    notes += [_BAND_NOTE] * any(line.low is not None for line in drawn)
    labels = list(picture.strokes)
    longest = max(map(len, labels)) + 6  # The handle and the gap.
    legend = figure.legend(
        [lines[label] for label in labels],
        [textwrap.fill(label, _LEGEND_CHARACTERS) for label in labels],
        loc="outside lower center",
        ncols=max(1, min(len(labels), _LEGEND_CHARACTERS // longest)),
        title="\n".join(notes) or None,
    )
    figure.set_figheight(figure.get_figheight() + legend.get_window_extent().height / figure.dpi)


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
