"""Draws what runs have learned: curves over frames and time, a panel a game, medians, or sorted returns.

Examples:
  python -m seed_rl.plot runs/atari_vtrace_Pong --output=pong.png
  python -m seed_rl.plot runs/sweep --style=sorted --output=sweep.svg

Name run directories, or directories of runs. Runs that differ in nothing but their seed are averaged, with a
95% confidence band.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from seed_rl.flags.command_line import parse_options
from seed_rl.flags.errors import UsageError, require_package, run_main, usage_errors
from seed_rl.flags.outputs import check_output
from seed_rl.plotting.config import PlotConfig

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from seed_rl.plotting.groups import Group


def main(argv: list[str]) -> int:
    """Draws a picture; returns the exit code."""
    config, paths = parse_options(argv, __doc__ or "", PlotConfig, positional=True)
    if not paths:
        raise UsageError("No run is named; add the directories of runs, or a directory that holds some.")
    if config.output is None:
        raise UsageError("No picture is named; add --output=FILE.png (or .svg, or .pdf).")
    for package in ("matplotlib", "scipy"):
        require_package(package, "plot")
    output = Path(config.output)
    check_output(output, "output", config.overwrite)
    from seed_rl.plotting.canvas import save
    from seed_rl.plotting.gather import gather

    with usage_errors():
        groups, left_out = gather(paths, config.metric, leave_out=config.style == "sorted")
        figure = draw(groups, config)
    for logdir in left_out:
        print(f"Left out, for it has no {config.metric or 'return'} yet: {logdir}", file=sys.stderr)
    save(figure, output)
    runs = sum(len(group.runs) for group in groups)
    print(f"Drew {_count(runs, 'run')} in {_count(len(groups), 'group')}: {output}")
    return 0


def draw(groups: "Sequence[Group]", config: PlotConfig) -> "Figure":
    """The picture of a style.

    Raises:
      ValueError: the runs cannot be drawn in this style; one sentence.
    """
    from seed_rl.plotting.styles import curves, grid, median, ranking

    styles = {
        "curves": curves.draw,
        "grid": grid.draw,
        "median_human_normalized": median.draw,
        "sorted": ranking.draw,
    }
    return styles[config.style](groups, config)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


if __name__ == "__main__":
    run_main(main)
