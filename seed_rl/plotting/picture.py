"""Plots of runs, by Matplotlib; a style is a function that makes the panels, and all are painted alike."""

import dataclasses
import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator

from seed_rl.files import replacing
from seed_rl.messages import say
from seed_rl.metrics.curves import Curve
from seed_rl.plotting.groups import (
    RunGroup,
    Variant,
    by_task,
    gather,
    metric_label,
    searches,
    span,
    task_labels,
    variant_labels,
    with_counts,
)
from seed_rl.plotting.lines import Line, group_lines, interquartile_mean, median_of_means, summary
from seed_rl.runs.scores import goal, published_medians, published_scores

_AXES = ("env_frames", "seconds")
_TIMES = (("hours", 3600.0), ("minutes", 60.0), ("seconds", 1.0))

_STYLE: Any = {
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.dpi": 200,
    "figure.labelsize": 10,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.6,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "legend.title_fontsize": 8,
    "lines.linewidth": 1.6,
    "lines.markersize": 4,
    "pdf.fonttype": 42,
    "text.parse_math": False,  # Dollar signs in names are dollar signs.
}
_WIDTH = 9.0  # Inches: 900 pixels in the README, at twice the resolution.
_MOST_COLUMNS = 6
_SMALL = 4  # From this many columns on, panels have small type.
_LEGEND_CHARACTERS = 120  # Characters that fit in a row, in the legend's font.
# Okabe and Ito's palette, which colour-blind readers can tell apart, without its yellow (too light on white).
_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_STROKES = cycler(linestyle=("-", "--", ":", "-.")) * cycler(color=_COLORS)
_GREY = {"color": "#BBBBBB", "linewidth": 1.0}
_HIGHLIGHTED = 5
_CROWDED = 0.15  # Of the vertical axis: two names that are closer would cover each other.
_MEAN_NOTE = "Thick lines: the mean over seeds, as far as all of them have trained. Thin lines: single seeds."
_BAND_NOTE = "Shaded: 95% confidence interval (stratified bootstrap over a game's seeds, at least three)."


class Panel(NamedTuple):
    """The contents of a pair of axes.

    Attributes:
      axis: "env_frames", "seconds" or "rank", which is horizontal.
      title: text above it.
      lines: by label, in the order of the legend. The first ones are drawn last, on top of the others.
      references: known scores to compare with, by name.
    """

    axis: str
    title: str
    lines: Mapping[str, Sequence[Line]]
    references: Mapping[str, float]


class Picture(NamedTuple):
    """The contents of a figure.

    Attributes:
      panels: in order; panels of the same values over different axes are neighbours.
      y: label of the vertical axes.
      title: text above all panels. If it names the only line there is, there is no legend.
      grey: the label whose lines are grey; empty if there is none.
    """

    panels: Sequence[Panel]
    y: str
    title: str = ""
    grey: str = ""


def draw_runs(
    paths: Iterable[str | Path],
    output: Path,
    style: str = "curves",
    metric: str | None = None,
    label: str | None = None,
) -> None:
    """Draws the runs of all paths (see `find_runs`) into a file, in the format of its ending.

    Prints how many there are and, on standard error, a line about each run that is skipped. `style`, `metric`
    and `label` are as `seed_rl plot` takes them.

    Raises:
      ValueError: runs cannot be found or drawn in this style; the message is one sentence.
      OSError: the file cannot be written.
    """
    found = gather(paths, metric)
    figure = draw(found.groups, style, label)
    for reason in found.skipped:
        say(f"skipped: {reason}")
    output.parent.mkdir(parents=True, exist_ok=True)
    with replacing(output) as file, matplotlib.rc_context(_STYLE):
        figure.savefig(file, format=output.suffix[1:].lower())
    runs = sum(len(group.runs) for group in found.groups)
    print(f"Drew {_count(runs, 'run')} in {_count(len(found.groups), 'group')}: {output}")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def draw(groups: Sequence[RunGroup], style: str = "curves", label: str | None = None) -> Figure:
    """Draws groups in a style; raises as `draw_runs`."""
    styles = {"curves": _curves, "best": _best, "aggregate": _aggregate, "sorted": _sorted}
    with matplotlib.rc_context(_STYLE):
        return _paint(styles[style](groups, label))


def _best(groups: Sequence[RunGroup], label: str | None) -> Picture:
    """The learning curve of each search's best combination, as in Figure 5 of the SEED RL paper.

    The best one ends highest. Each game has a panel over frames and, beside it, one over time.

    Raises:
      ValueError: no search has several combinations; the message is one sentence.
    """
    best: list[RunGroup] = []
    for name, combinations in searches(groups, label).items():
        ranked = by_task(combinations).values()
        kind = Variant(f"{name}, best of {span([len(several) for several in ranked])}")
        best += [dataclasses.replace(several[0], variant=kind) for several in ranked]
    if len(best) == len(groups):
        raise ValueError(
            "No method has runs of several combinations of settings on one game, so none is the best; name "
            "the directory of a sweep, or choose --style=curves."
        )
    return _curves(best, None, _AXES, is_named=True)


def _curves(
    groups: Sequence[RunGroup], label: str | None, axes: Sequence[str] = _AXES[:1], is_named: bool = False
) -> Picture:
    """The metric of each seed, and means over seeds: a panel for each game, as in Figure 7 of the SEED paper.

    A single game has both axes side by side. There, more groups than colours would clutter the plot: then the
    five that end highest are named and lie on top, and the others are grey. If `is_named`, the methods of the
    groups are their labels already.
    """
    kinds = dict.fromkeys(group.variant for group in groups)
    names = {kind: kind.method for kind in kinds} if is_named else variant_labels(groups, label)
    labels, tasks, grey = with_counts(names, groups), by_task(groups), ""
    titles, is_one = task_labels(tasks), len(tasks) == 1
    if is_one and len(groups) > len(_COLORS):
        ranked = [group.variant for group in sorted(groups, key=lambda group: -group.final)]
        grey = f"{len(groups) - _HIGHLIGHTED} others, which end lower"
        labels = {kind: labels[kind] if i < _HIGHLIGHTED else grey for i, kind in enumerate(ranked)}
    title = titles[groups[0].task] if is_one else ""
    if len(groups) == 1:
        title += f": {labels[groups[0].variant]}"
    panels = []
    for task, mine in tasks.items():
        for axis in _AXES if is_one else axes:
            lines: dict[str, list[Line]] = {name: [] for name in labels.values()}
            for group in mine:
                lines[labels[group.variant]] += group_lines(group, axis)
            panels.append(Panel(axis, "" if is_one else titles[task], lines, _references(mine)))
    return Picture(panels, metric_label(groups), title, grey)


def _references(groups: Sequence[RunGroup]) -> dict[str, float]:
    """Scores of a game to compare its returns with, by name; none for other metrics."""
    if not all(group.metric in ("mean_return", "mean_evaluation_return") for group in groups):
        return {}
    scores, mark = published_scores(*groups[0].task), goal(*groups[0].task)
    return (scores._asdict() if scores else {}) | ({} if mark is None else {"goal": mark})


def _aggregate(groups: Sequence[RunGroup], label: str | None) -> Picture:
    """The median over games and, below it, the interquartile mean of the human-normalized return.

    The median is that of Figure 6 of the SEED RL paper, over frames and over time. Each method and setting
    has a line, as far as it has come in all games.
    """
    titles, names = task_labels(by_task(groups)), variant_labels(groups, label)
    games: dict[str, list[list[Curve]]] = {}
    for kind, name in with_counts(names, groups).items():
        mine = by_task([group for group in groups if group.variant == kind])
        if missing := titles.keys() - mine.keys():
            raise ValueError(
                f"{names[kind]} has no run of {', '.join(sorted(titles[task] for task in missing))}, and "
                "aggregates over different games cannot be compared; name runs of the same games for every "
                "method."
            )
        games[name] = [_normalized(group) for (group,) in mine.values()]
    panels = []
    levels = {"random": 0.0, "human": 100.0}
    for word, statistic, more in (
        ("median", median_of_means, published_medians((task.environment, task.game) for task in titles)),
        ("interquartile mean", interquartile_mean, {}),
    ):
        for axis in _AXES:
            lines = {name: [summary(several, statistic, axis)] for name, several in games.items()}
            title = f"{word} over {_count(len(titles), 'game')}"
            panels.append(Panel(axis, title, lines, levels | more))
    return Picture(panels, "human-normalized return (percent)")


def _normalized(group: RunGroup) -> list[Curve]:
    """The human-normalized curves of a group, in percent."""
    scores = published_scores(*group.task)
    if scores is None:
        raise ValueError(
            f"There are no published human and random scores for {' '.join(filter(None, group.task))}, so "
            "its return cannot be normalized; leave it out, or choose another style."
        )
    return [run.curve._replace(value=scores.human_normalized(run.curve.value)) for run in group.runs]


def _sorted(groups: Sequence[RunGroup], label: str | None) -> Picture:
    """Final returns from best to worst, a panel for each game, as in Figure 4 of the SEED RL paper.

    Each search has a line: the final values of its combinations of settings, sorted. A final value is the
    mean over seeds of the mean over the last tenth of each run.
    """
    found, tasks, panels = searches(groups, label), by_task(groups), []
    for task, title in task_labels(tasks).items():
        lines: dict[str, list[Line]] = {}
        for name, several in found.items():
            finals = np.array([group.final for group in several if group.task == task])
            lines[name] = [Line(np.arange(1.0, len(finals) + 1), finals)] if len(finals) else []
        panels.append(Panel("rank", title, lines, _references(tasks[task])))
    return Picture(panels, f"final {metric_label(groups)}")


def _paint(picture: Picture) -> Figure:
    """The figure of a picture: a square of panels, or a row of two for each game over both axes."""
    labels = list(dict.fromkeys(label for panel in picture.panels for label in panel.lines))
    if len(labels) > len(_STROKES):
        raise ValueError(
            f"{len(labels)} kinds of line cannot be told apart in one plot; pass fewer runs, or choose "
            "--style=sorted."
        )
    strokes = dict(zip(labels, _STROKES, strict=False)) | {picture.grey: _GREY}
    count, kinds = len(picture.panels), len({panel.axis for panel in picture.panels})
    columns = count if count <= 3 else min(_MOST_COLUMNS, math.ceil(math.sqrt(count)))
    columns = kinds if kinds > 1 else columns
    rows, is_small = math.ceil(count / columns), columns >= _SMALL
    height = rows * min(3.2, 0.72 * _WIDTH / columns + 0.25) + 0.3
    figure = Figure((_WIDTH, height), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False, sharey="row" if kinds > 1 else False)
    for place in grid.flat[count:]:
        place.remove()
    for number, (place, panel) in enumerate(zip(grid.flat, picture.panels, strict=False)):
        place.set_title(panel.title, fontsize=8 if is_small else 10)
        place.tick_params(labelsize=7 if is_small else 9)
        label = _draw_panel(place, panel, strokes)
        if kinds > 1 or number + columns >= count:
            place.set_xlabel(label, fontsize=8 if is_small else 10)
        if kinds == 1 or number % columns == columns - 1:
            _name_references(place, panel.references)
    figure.suptitle(picture.title)
    figure.supylabel(picture.y)
    _add_legend(figure, picture, labels)
    return figure


def _draw_panel(place: Axes, panel: Panel, strokes: Mapping[str, Any]) -> str:
    """Draws the lines of a panel; returns the label of the horizontal axis."""
    longest = max(line.x[-1] for lines in panel.lines.values() for line in lines)
    time, size = next(unit for unit in _TIMES if longest >= unit[1] or unit is _TIMES[-1])
    for label, lines in reversed(list(panel.lines.items())):
        for line in reversed(lines):
            x = line.x / size if panel.axis == "seconds" else line.x
            look = {"marker": "o" if len(x) == 1 or panel.axis == "rank" else None, **strokes[label]}
            thin = {"label": None, "linewidth": 0.6, "alpha": 0.5} if line.is_seed else {}
            place.plot(x, line.y, **{"label": label, **look, **thin})
            if line.low is not None and line.high is not None:
                place.fill_between(x, line.low, line.high, color=look["color"], alpha=0.2, linewidth=0)
    for name, value in panel.references.items():
        place.axhline(value, color="#666666", linewidth=0.8, linestyle=(0, (1, 2)), label=f"_{name}")
    place.set_xlim(left=0)
    if np.max(np.abs(place.get_ylim())) >= 1e4:
        place.yaxis.set_major_formatter(EngFormatter(sep=""))
    if panel.axis == "rank":
        place.set_xlim(0.5, place.dataLim.x1 + 0.5)
        place.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        return "rank, best first"
    if panel.axis == "env_frames":
        place.xaxis.set_major_formatter(EngFormatter(sep=""))
        return "environment frames"
    return f"{time} of training"


def _name_references(place: Axes, references: Mapping[str, float]) -> None:
    """Writes the name of each known score right of its line; those of two close ones below and above."""
    low, high = place.get_ylim()
    levels = references.values()
    are_close = 0 < max(levels, default=0.0) - min(levels, default=0.0) < _CROWDED * (high - low)
    for name, value in references.items():
        place.annotate(
            f"{name}\n{value:,.0f}" if abs(value) >= 1000 else f"{name}\n{value:.4g}",
            (1.0, value),
            xycoords=place.get_yaxis_transform(),
            xytext=(2, 0),
            textcoords="offset points",
            fontsize=7,
            color="#444444",
            va=("top" if value == min(levels) else "bottom") if are_close else "center",
            linespacing=0.9,
            annotation_clip=True,
        )


def _add_legend(figure: Figure, picture: Picture, labels: Sequence[str]) -> None:
    """Adds the one legend below the panels, notes on thin lines and bands, and the height for it."""
    drawn = [line for panel in picture.panels for lines in panel.lines.values() for line in lines]
    notes = [_MEAN_NOTE] * any(line.is_seed for line in drawn)
    notes += [_BAND_NOTE] * any(line.low is not None for line in drawn)
    if len(labels) == 1 and picture.title and not notes:
        return
    handles = {line.get_label(): line for place in figure.axes for line in place.lines}
    legend = figure.legend(
        [handles[label] for label in labels],
        [textwrap.fill(label, _LEGEND_CHARACTERS) for label in labels],
        loc="outside lower center",
        ncols=max(1, _LEGEND_CHARACTERS // (max(map(len, labels)) + 6)),  # With the handle and the gap.
        title="\n".join(notes) or None,
    )
    figure.set_figheight(figure.get_figheight() + legend.get_window_extent().height / figure.dpi)
