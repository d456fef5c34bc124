"""From run directories to a picture of a style, and to its file."""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from matplotlib.figure import Figure

from seed_rl.plotting.canvas import save
from seed_rl.plotting.config import PlotConfig
from seed_rl.plotting.gather import gather
from seed_rl.plotting.groups import Group
from seed_rl.plotting.styles import curves, grid, median, ranking

_STYLES = {
    "curves": curves.draw,
    "grid": grid.draw,
    "median_human_normalized": median.draw,
    "sorted": ranking.draw,
}


class Picture(NamedTuple):
    """A picture that is in no file yet.

    Attributes:
      figure: the picture.
      contents: what is in it, in words.
      left_out: a line about each run that is not in it.
    """

    figure: Figure
    contents: str
    left_out: list[str]


def draw_runs(paths: Iterable[str | Path], config: PlotConfig) -> Picture:
    """Draws the runs of all paths, which are as in `gather.find_runs`.

    Raises:
      ValueError: runs cannot be found or read, or not be drawn in this style; one sentence.
    """
    groups, left_out = gather(paths, config.metric, leave_out=config.style == "sorted")
    runs = sum(len(group.runs) for group in groups)
    return Picture(
        draw(groups, config),
        f"{_count(runs, 'run')} in {_count(len(groups), 'group')}",
        [f"Left out, for it has no {config.metric or 'return'} yet: {logdir}" for logdir in left_out],
    )


def draw(groups: Sequence[Group], config: PlotConfig) -> Figure:
    """The picture of a style.

    Raises:
      ValueError: the runs cannot be drawn in this style; one sentence.
    """
    return _STYLES[config.style](groups, config)


def write(picture: Picture, output: Path) -> None:
    """Writes a picture's file, and prints what is in it and, on standard error, what is not.

    Raises:
      OSError: the file cannot be written.
    """
    for line in picture.left_out:
        print(line, file=sys.stderr)
    save(picture.figure, output)
    print(f"Drew {picture.contents}: {output}")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
