"""Plots the results of runs: learning curves, aggregates over games, or the sorted returns of sweeps.

Examples:
  seed_rl plot runs/atari_vtrace_Pong
  seed_rl plot runs/new runs/old --label=New,Old --output=comparison.png
  seed_rl plot runs/sweep --style=sorted --output=sweep.svg

Pass run directories, or directories that contain runs. Runs that differ only in their seed are one group: a
mean and, from three seeds on, its 95% confidence interval. Each game has a panel of its own.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from seed_rl.flags.command_line import parse_options
from seed_rl.flags.errors import UsageError, require_package, usage_errors
from seed_rl.flags.outputs import check_output
from seed_rl.plotting.config import PACKAGES, PlotConfig
from seed_rl.plotting.groups import gather
from seed_rl.runs.layout import RunDirectory


def main(argv: list[str]) -> int:
    """Draws the plot; returns the exit code."""
    config, paths = parse_options(argv, __doc__ or "", PlotConfig, positional=None)
    if not paths:
        raise UsageError("No run is given; add run directories, or a directory that contains some.")
    for package in PACKAGES:
        require_package(package, "plot")
    if config.output is not None:
        check_output(Path(config.output), "output", config.overwrite)
    with usage_errors():
        found = gather(paths, config.metric)
        output = Path(config.output or default_output(found.directories))
        check_output(output, "output", overwrite=True)
        from seed_rl.plotting.picture import draw_found

        draw_found(found, config, output)
    return 0


def default_output(runs: Sequence[Path]) -> Path:
    """The plot's file in the run directory, or in the directory that all runs have in common.

    It is in the current directory if they have nothing in common, or if that directory cannot be written.
    """
    common = Path(os.path.commonpath([run.absolute() for run in runs]))
    if common == Path(common.anchor) or not os.access(common, os.W_OK):
        common = Path.cwd()
    if common.is_relative_to(Path.cwd()):
        common = common.relative_to(Path.cwd())
    return RunDirectory(common).plot
