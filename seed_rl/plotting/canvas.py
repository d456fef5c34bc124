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
_BAND_NOTE = "Shaded: 95% confidence interval (stratified bootstrap over a game's seeds, at least three)."

RANK = Unit(1.0, "rank of the hyperparameter combination, best first")

# The look of a line: arguments of matplotlib's `plot`.
Stroke = Mapping[str, Any]


class Panel(NamedTuple):
    """The contents of a pair of axes.

    Attributes:
      x: unit and label of the horizontal axis; `RANK` in plots of sorted values.
      title: text above it.
      lines: by label in the legend. The first ones are drawn last, on top of the others.
      references: known scores to compare with, by name.
    """

    x: Unit
    title: str
    lines: Mapping[str, Sequence[Line]]
    references: Mapping[str, float]


class Picture(NamedTuple):
    """The contents of a figure.

    Attributes:
      panels: in order; panels of the same values over different `x` are neighbours.
      y: label of the vertical axes.
      strokes: by label, in the order of the legend.
      title: the title unless the user gives one. If it names the only line there is, there is no legend.
    """

    panels: Sequence[Panel]
    y: str
    strokes: Mapping[str, Stroke]
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
    axes = _make_axes(figure, picture)
    for place, panel in axes.items():
        for label, lines in reversed(list(panel.lines.items())):
            for line in reversed(lines):
                _draw(place, line, panel.x.size, label, picture.strokes[label])
        for name, value in panel.references.items():
            place.axhline(value, color="#666666", linewidth=0.8, linestyle=(0, (1, 2)), label=f"_{name}")
        place.set_xlim(left=0)
        if panel.x is RANK:
            place.set_xlim(0.5, place.dataLim.x1 + 0.5)
            place.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        place.grid(alpha=0.25, linewidth=0.6)
    for place, panel in axes.items():  # Axes that are shared have all lines now.
        shared = place.get_shared_y_axes().get_siblings(place)
        if place is max(shared, key=list(axes).index):
            _name_references(place, panel.references)
        place.set_ylim(config.lowest, config.highest)
        if np.max(np.abs(place.get_ylim())) >= 1e4:
            place.yaxis.set_major_formatter(EngFormatter(sep=""))
    _add_legend(figure, picture, {line.get_label(): line for place in axes for line in place.lines})
    if title := picture.title if config.title is None else config.title:
        figure.suptitle(title)
    return figure


def _make_axes(figure: Figure, picture: Picture) -> dict[Axes, Panel]:
    """Empty axes for each panel, in nearly as many columns as rows, or in a single row if that has room.

    Panels of the same values share the vertical axis if they have a row for themselves.
    """
    count, units = len(picture.panels), dict.fromkeys(panel.x for panel in picture.panels)
    columns = count if count <= 3 else min(_MOST_COLUMNS, math.ceil(math.sqrt(count)))
    columns = len(units) * math.ceil(columns / len(units))
    rows = math.ceil(count / columns)
    figure.set_figheight(rows * min(3.2, 0.72 * WIDTH / columns + 0.25) + 0.3)
    body = figure.subfigures(1, 1, squeeze=False)[0, 0]  # Without it, the labels would lie on the legend.
    body.supylabel(picture.y)
    shares_rows = len(units) == columns > 1
    grid = body.subplots(rows, columns, squeeze=False, sharey="row" if shares_rows else False)
    axes = dict(zip(grid.flat, picture.panels, strict=False))
    for number, (place, panel) in enumerate(axes.items()):
        place.set_title(panel.title, fontsize=8 if columns >= _SMALL else 10)
        place.tick_params(labelsize=7 if columns >= _SMALL else 9)
        if len(units) > 1 and number + columns >= count:
            place.set_xlabel(panel.x.label)
    if len(units) == 1:
        body.supxlabel(picture.panels[0].x.label)
    for place in grid.flat[count:]:
        place.remove()
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
    drawn = [line for panel in picture.panels for lines in panel.lines.values() for line in lines]
    notes = [_MEAN_NOTE] * any(line.is_seed for line in drawn)
    notes += [_BAND_NOTE] * any(line.low is not None for line in drawn)
    labels = list(picture.strokes)
    if len(labels) == 1 and picture.title and not notes:
        return
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
