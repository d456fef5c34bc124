"""Draws run directories in a style, and writes the plot to a file."""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import matplotlib
from matplotlib.figure import Figure

from seed_rl.plotting.canvas import save
from seed_rl.plotting.config import PlotConfig
from seed_rl.plotting.gather import gather
from seed_rl.plotting.groups import Group
from seed_rl.plotting.styles import draw_curves, draw_grid, draw_median, draw_sorted

_STYLES = {
    "curves": draw_curves,
    "grid": draw_grid,
    "median_human_normalized": draw_median,
    "sorted": draw_sorted,
}


class Picture(NamedTuple):
    """A plot that is not in a file yet.

    Attributes:
      figure: the plot.
      contents: a description of what is in it.
      left_out: one line about each run that is not in it.
    """

    figure: Figure
    contents: str
    left_out: list[str]


def draw_runs(paths: Iterable[str | Path], config: PlotConfig) -> Picture:
    """Draws the runs of all paths, as found by `gather.find_runs`.

    Raises:
      ValueError: runs cannot be found, read, or drawn in this style; the message is one sentence.
    """
    groups, left_out = gather(paths, config.metric, leave_out=config.style == "sorted")
    runs = sum(len(group.runs) for group in groups)
    return Picture(
        draw(groups, config),
        f"{_count(runs, 'run')} in {_count(len(groups), 'group')}",
        [f"Left out because it has no {config.metric or 'return'} yet: {logdir}" for logdir in left_out],
    )


def draw(groups: Sequence[Group], config: PlotConfig) -> Figure:
    """Draws groups in the style that the settings choose.

    Raises:
      ValueError: the runs cannot be drawn in this style; the message is one sentence.
    """
    with matplotlib.rc_context({"text.parse_math": False}):  # Dollar signs in names are dollar signs.
        return _STYLES[config.style](groups, config)


def write(picture: Picture, output: Path) -> None:
    """Writes a plot to a file; prints what is in it and, on standard error, what was left out.

    Raises:
      OSError: the file cannot be written.
    """
    for line in picture.left_out:
        print(line, file=sys.stderr)
    save(picture.figure, output)
    print(f"Drew {picture.contents}: {output}")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
