"""Draws run directories in a style, and writes the plot to a file."""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

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


def draw_runs(paths: Iterable[str | Path], config: PlotConfig) -> None:
    """Draws the runs of all paths (see `gather.find_runs`) into the file of `config`.

    Prints how many there are and, on standard error, a line about each run that is left out.

    Raises:
      ValueError: runs cannot be found, read, or drawn in this style; the message is one sentence.
      OSError: the file cannot be written.
    """
    assert config.output is not None
    groups, left_out = gather(paths, config.metric, leave_out=config.style == "sorted")
    figure = draw(groups, config)
    for logdir in left_out:
        print(f"Left out because it has no {config.metric or 'return'} yet: {logdir}", file=sys.stderr)
    save(figure, Path(config.output))
    runs = sum(len(group.runs) for group in groups)
    print(f"Drew {_count(runs, 'run')} in {_count(len(groups), 'group')}: {config.output}")


def draw(groups: Sequence[Group], config: PlotConfig) -> Figure:
    """Draws groups in the style that the settings choose.

    Raises:
      ValueError: the runs cannot be drawn in this style; the message is one sentence.
    """
    with matplotlib.rc_context({"text.parse_math": False}):  # Dollar signs in names are dollar signs.
        return _STYLES[config.style](groups, config)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
