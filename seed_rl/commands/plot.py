"""Plots the results of runs: curves over frames and time, one panel per game, medians, or sorted returns.

Examples:
  seed_rl plot runs/atari_vtrace_Pong --output=pong.png
  seed_rl plot runs/sweep --style=sorted --output=sweep.svg

Pass run directories, or directories that contain runs. Runs that differ only in their seed are averaged, with
a 95% confidence band.
"""

from pathlib import Path

from seed_rl.flags.command_line import parse_options
from seed_rl.flags.errors import UsageError, require_package, usage_errors
from seed_rl.flags.outputs import check_output
from seed_rl.plotting.config import PACKAGES, PlotConfig


def main(argv: list[str]) -> int:
    """Draws the plot; returns the exit code."""
    config, paths = parse_options(argv, __doc__ or "", PlotConfig, positional=None)
    if not paths:
        raise UsageError("No run is given; add run directories, or a directory that contains some.")
    if config.output is None:
        raise UsageError("No output file is given; add --output=FILE.png (or .svg, or .pdf).")
    for package in PACKAGES:
        require_package(package, "plot")
    check_output(Path(config.output), "output", config.overwrite)
    from seed_rl.plotting.picture import draw_runs

    with usage_errors():
        draw_runs(paths, config)
    return 0
