"""Draws run directories in a style, and writes the plot to a file."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from seed_rl.messages import say
from seed_rl.plotting import canvas
from seed_rl.plotting.canvas import Stroke, make_panels
from seed_rl.plotting.config import PlotConfig
from seed_rl.plotting.gather import Found, gather
from seed_rl.plotting.groups import Group, Task, Variant, by_task
from seed_rl.plotting.labels import (
    Unit,
    axis_unit,
    metric_label,
    span,
    task_labels,
    variant_labels,
    with_counts,
)
from seed_rl.plotting.lines import (
    Line,
    Statistic,
    interquartile_mean,
    mean_line,
    median_of_means,
    normalized_line,
    seed_lines,
)
from seed_rl.plotting.searches import searches
from seed_rl.runs.scores import goal, published_medians, published_scores


def draw_runs(paths: Iterable[str | Path], config: PlotConfig) -> None:
    """Draws the runs of all paths (see `gather.find_runs`) into the file that `config.output` names.

    Prints how many there are and, on standard error, a line about each run that is skipped.

    Raises:
      ValueError: runs cannot be found or drawn in this style; the message is one sentence.
      OSError: the file cannot be written.
    """
    assert config.output is not None
    draw_found(gather(paths, config.metric), config, Path(config.output))


def draw_found(found: Found, config: PlotConfig, output: Path) -> None:
    """Draws runs that have been gathered; otherwise as `draw_runs`."""
    figure = draw(found.groups, config)
    for reason in found.skipped:
        say(f"skipped: {reason}")
    canvas.save(figure, output)
    print(f"Drew {_count(len(found.directories), 'run')} in {_count(len(found.groups), 'group')}: {output}")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def draw(groups: Sequence[Group], config: PlotConfig) -> Figure:
    """Draws groups in the style that the settings choose.

    Raises:
      ValueError: the runs cannot be drawn in this style; the message is one sentence.
    """
    styles = {
        "curves": _draw_curves,
        "best": _draw_best,
        "aggregate": _draw_aggregate,
        "sorted": _draw_sorted,
    }
    with matplotlib.rc_context(canvas.STYLE):
        return styles[config.style](groups, config)


_CURVES_HEIGHT, _AGGREGATE_HEIGHT = 3.4, 5.6
_AXES = ("env_frames", "seconds")
_HIGHLIGHTED = 5
_GREY: Stroke = {"color": "#BBBBBB", "linewidth": 1.0}
_MEAN_NOTE = "Thick lines: the mean over seeds, as far as all of them have trained. Thin lines: single seeds."
_BAND_NOTE = "Shaded: 95% confidence interval of that mean (bootstrap over seeds, from three seeds on)."


def _draw_curves(groups: Sequence[Group], config: PlotConfig) -> Figure:
    """Draws learning curves: a panel for each game, or frames and time side by side if there is one game."""
    names = with_counts(variant_labels(groups, config.label), groups)
    if len(by_task(groups)) == 1:
        return _draw_one_game(groups, names, config)
    return _draw_games(groups, names, config, _AXES[:1])


def _draw_best(groups: Sequence[Group], config: PlotConfig) -> Figure:
    """Draws the learning curve of each search's best combination, as in Figure 5 of the SEED RL paper.

    The best one ends highest. There is a panel for each game over frames, and below it one over time.

    Raises:
      ValueError: no search has several combinations; the message is one sentence.
    """
    names: dict[Variant, str] = {}
    best: list[Group] = []
    most = 0
    for search in searches(groups, config.label):
        ranked = [search.on(task) for task in by_task(search.groups)]
        counts = [len(several) for several in ranked]
        most = max(most, *counts)
        kind = Variant(f"{search.name}, best of {span(counts)}")
        names[kind] = kind.method
        best += [dataclasses.replace(several[0], variant=kind) for several in ranked]
    if most < 2:
        raise ValueError(
            "No method has runs of several combinations of settings on one game, so none is the best; name "
            "the directory of a sweep, or choose --style=curves."
        )
    names = with_counts(names, best)
    if len(by_task(best)) == 1:
        return _draw_one_game(best, names, config)
    return _draw_games(best, names, config, _AXES)


def _draw_one_game(groups: Sequence[Group], names: Mapping[Variant, str], config: PlotConfig) -> Figure:
    """Draws the metric against environment frames and against time, side by side; one mean per group.

    More groups than colours would clutter the plot: then the five that end highest are named, and the others
    are grey. The most important groups are drawn last, so that they lie on top.
    """
    named = sorted(groups, key=lambda group: list(names).index(group.variant))
    others: list[Group] = []
    if len(named) > len(canvas.COLORS):
        named.sort(key=lambda group: -group.final)
        named, others = named[:_HIGHLIGHTED], named[_HIGHLIGHTED:]
    labels = [names[group.variant] for group in named]
    strokes = dict(zip(named, canvas.strokes(labels), strict=True))
    if others:
        labels.append(f"{len(others)} others, which end lower")
        strokes |= dict.fromkeys(others, _GREY)
        strokes[others[0]] = {**_GREY, "label": labels[-1]}
    figure = canvas.new_figure(_CURVES_HEIGHT)
    panels = figure.subplots(1, 2, sharey=True)
    note = ""
    for panel, axis in zip(panels, _AXES, strict=True):
        unit = _unit(groups, axis)
        for group, stroke in reversed(strokes.items()):
            seeds = seed_lines(group, axis)
            mean = mean_line(seeds)
            if group in others and mean is not None:
                mean = mean._replace(low=None, high=None)
                seeds = []
            canvas.draw_seeds(panel, seeds, mean, unit, stroke)
            note = _longer(note, seeds, mean)
        panel.set_xlabel(unit.label)
        panel.set_xlim(left=0)
    for panel in panels:
        canvas.draw_references(panel, _references(groups), with_names=panel is panels[-1])
    panels[0].set_ylabel(metric_label(groups))
    (title,) = task_labels(group.task for group in groups).values()
    if len(groups) == 1:
        title += f": {config.label or groups[0].variant.method}"
        labels = labels if len(groups[0].runs) > 1 else []
    return canvas.finish(figure, panels, labels, config, title, note)


def _draw_games(
    groups: Sequence[Group], names: Mapping[Variant, str], config: PlotConfig, axes: Sequence[str]
) -> Figure:
    """Draws a small panel for each game and axis, with all methods in each, as in the paper's Figure 7."""
    strokes = dict(zip(names, canvas.strokes(names.values()), strict=True))
    units = [_unit(groups, axis) for axis in axes]
    tasks = by_task(groups)
    figure, sets = make_panels(tasks, metric_label(groups), *(unit.label for unit in units))
    note = ""
    for panels, axis, unit in zip(sets, axes, units, strict=True):
        for task, panel in panels.items():
            for group in sorted(tasks[task], key=lambda group: -list(names).index(group.variant)):
                seeds = seed_lines(group, axis)
                mean = mean_line(seeds)
                canvas.draw_seeds(panel, seeds, mean, unit, strokes[group.variant])
                note = _longer(note, seeds, mean)
            panel.set_xlim(left=0)
            canvas.draw_references(panel, _references(tasks[task]))
    every = [panel for panels in sets for panel in panels.values()]
    return canvas.finish(figure, every, names.values(), config, note=note)


def _longer(note: str, seeds: Sequence[Line], mean: Line | None) -> str:
    """The note that explains these lines as well as those that `note` does."""
    if mean is None or len(seeds) <= 1:
        return note
    return f"{_MEAN_NOTE}\n{_BAND_NOTE}" if mean.low is not None else note or _MEAN_NOTE


def _unit(groups: Sequence[Group], axis: str) -> Unit:
    return axis_unit(axis, max(line.x[-1] for group in groups for line in seed_lines(group, axis)))


def _references(groups: Sequence[Group]) -> dict[str, float]:
    """Scores of a game to compare its returns with, by name; none for other metrics."""
    if not {run.metric for group in groups for run in group.runs} <= {
        "mean_return",
        "mean_evaluation_return",
    }:
        return {}
    task = groups[0].task
    scores, mark = published_scores(*task), goal(*task)
    return (scores._asdict() if scores else {}) | ({} if mark is None else {"goal": mark})


_AGGREGATE_NOTE = (
    "Shaded: 95% confidence intervals (stratified bootstrap: the seeds of each game are drawn separately)."
)


def _draw_aggregate(groups: Sequence[Group], config: PlotConfig) -> Figure:
    """Draws the median over games and, below it, the interquartile mean of the human-normalized return.

    The median is that of Figure 6 of the SEED RL paper, over frames and over time. Each method and setting
    has a line, as far as it has come in all games.
    """
    names = variant_labels(groups, config.label)
    tasks = list(by_task(groups))
    of_kind = {kind: [group for group in groups if group.variant == kind] for kind in names}
    for kind, name in names.items():
        _check_games(name, [group.task for group in of_kind[kind]], tasks)
    labels = with_counts(names, groups)
    strokes = canvas.strokes(labels.values())
    figure = canvas.new_figure(_AGGREGATE_HEIGHT)
    grid = figure.subplots(2, 2, sharex="col", sharey="row")
    statistics: dict[str, Statistic] = {
        f"median over {_count(len(tasks), 'game')}": median_of_means,
        f"interquartile mean over {_count(len(tasks), 'game')}": interquartile_mean,
    }
    levels = {"random": 0.0, "human": 100.0}
    published = [published_medians([(task.environment, task.game) for task in tasks]), {}]
    note = ""
    for (title, statistic), panels, more in zip(statistics.items(), grid, published, strict=True):
        for panel, axis in zip(panels, _AXES, strict=True):
            unit = _unit(groups, axis)
            for mine, stroke in reversed(list(zip(of_kind.values(), strokes, strict=True))):
                line = normalized_line(mine, statistic, axis)
                canvas.draw_line(panel, line, unit, stroke)
                note = note if line.low is None else _AGGREGATE_NOTE
            panel.set_title(title, fontsize=10)
            panel.set_xlim(left=0)
            if panel in grid[-1]:
                panel.set_xlabel(unit.label)
        for panel in panels:
            canvas.draw_references(panel, levels | more, with_names=panel is panels[-1])
    figure.supylabel("human-normalized return (percent)")
    return canvas.finish(figure, grid.flat, labels.values(), config, note=note)


def _check_games(label: str, mine: Sequence[Task], all_tasks: Sequence[Task]) -> None:
    """Refuses a method that lacks a game: aggregates over different games cannot be compared."""
    names = task_labels(all_tasks)
    missing = [names[task] for task in all_tasks if task not in mine]
    if missing:
        raise ValueError(
            f"{label} has no run of {', '.join(missing)}, and aggregates over different games cannot be "
            "compared; name runs of the same games for every method."
        )


def _draw_sorted(groups: Sequence[Group], config: PlotConfig) -> Figure:
    """Draws final returns from best to worst, a panel for each game, as in Figure 4 of the SEED RL paper.

    Each search has a line: the final values of its combinations of settings, sorted. A final value is the
    mean over seeds of the mean over the last tenth of each run.
    """
    found = searches(groups, config.label)
    labels = [search.name for search in found]
    seeds = ", mean over seeds" if any(len(group.runs) > 1 for group in groups) else ""
    tasks = by_task(groups)
    figure, (panels,) = make_panels(
        tasks, f"final {metric_label(groups)}{seeds}", "rank of the hyperparameter combination, best first"
    )
    for task, panel in panels.items():
        longest = 1
        for search, stroke in reversed(list(zip(found, canvas.strokes(labels), strict=True))):
            finals = np.array([group.final for group in search.on(task)])
            longest = max(longest, len(finals))
            if len(finals):
                line = Line(np.arange(1.0, len(finals) + 1), finals)
                canvas.draw_line(panel, line, Unit(1.0, ""), {"marker": "o", **stroke})
        panel.set_xlim(0.5, longest + 0.5)
        panel.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        canvas.draw_references(panel, _references(tasks[task]))
    return canvas.finish(figure, panels.values(), labels, config)
