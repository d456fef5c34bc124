"""Plots the results of runs: learning curves, aggregates over games, or the sorted returns of sweeps.

Examples:
  seed_rl plot runs/atari_vtrace_Pong
  seed_rl plot runs/new runs/old --label=New,Old --output=comparison.png
  seed_rl plot runs/sweep --style=sorted --output=sweep.svg

Pass run directories, or directories that contain runs. Runs that differ only in their seed are one group: a
mean and, from three seeds on, its 95% confidence interval. Each game has a panel of its own.
"""

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path

from seed_rl.flags.command_line import check_output, parse_options
from seed_rl.flags.errors import UsageError, require_package, usage_errors
from seed_rl.options import Options, option
from seed_rl.plotting import PACKAGES
from seed_rl.runs.layout import RunDirectory

ENDINGS = (".png", ".svg", ".pdf")


@dataclasses.dataclass(frozen=True)
class PlotConfig(Options):
    """Style and contents of the plot, and its file."""

    output: str | None = option(
        None,
        "File for the plot; its ending sets the format: .png, .svg or .pdf. By default plot.png in the "
        "directory that is given, or in the one that all of them have in common, where an earlier one is "
        "replaced.",
        is_path=True,
    )
    style: str = option(
        "curves",
        "curves: learning curves, over frames and over time, or a panel for each game (Figure 7 of the SEED "
        "RL paper). best: the curve of the combination of settings that ends highest, for each search "
        "(Figure 5). aggregate: median and interquartile mean over games of the human-normalized return "
        "(Figure 6). sorted: the final returns of a search's combinations, from best to worst (Figure 4).",
        choices=("curves", "best", "aggregate", "sorted"),
    )
    label: str | None = option(
        None,
        "Names, separated by commas, in place of our own labels, in the order in which the runs are given.",
    )
    metric: str | None = option(
        None,
        "The metric in metrics.jsonl to plot; by default the mean return, from evaluation environments "
        "where all runs compared have them.",
    )
    overwrite: bool = option(False, "Overwrite a file that --output names.")

    def validate(self) -> None:
        """Checks the file's format, and that only returns are normalized."""
        if self.output is not None and not self.output.lower().endswith(ENDINGS):
            raise ValueError(
                f"--output={self.output} has no supported format; its name must end in one of: "
                f"{', '.join(ENDINGS)}."
            )
        returns = (None, "mean_return", "mean_evaluation_return")
        if self.style == "aggregate" and self.metric not in returns:
            raise ValueError(
                f"--metric={self.metric} cannot be normalized by human scores; choose mean_return or "
                "mean_evaluation_return, or another --style."
            )


def main(argv: list[str]) -> int:
    """Draws the plot; returns the exit code."""
    config, paths = parse_options(argv, __doc__ or "", PlotConfig, positional=None)
    if not paths:
        raise UsageError("No run is given; add run directories, or a directory that contains some.")
    for package in PACKAGES:
        require_package(package, "plot")
    output = Path(config.output or default_output(paths))
    check_output(output, "output", config.overwrite or config.output is None)
    from seed_rl.plotting.picture import draw_runs

    with usage_errors():
        draw_runs(paths, output, config.style, config.metric, config.label)
    return 0


def default_output(paths: Sequence[str]) -> Path:
    """The plot's file in the directory that is given, or in the one that all of them have in common.

    It is in the current directory if they have nothing in common, or if that directory cannot be written.
    """
    common = Path(os.path.commonpath([os.path.abspath(path) for path in paths]))
    if common == Path(common.anchor) or not os.path.isdir(common) or not os.access(common, os.W_OK):
        common = Path.cwd()
    if common.is_relative_to(Path.cwd()):
        common = common.relative_to(Path.cwd())
    return RunDirectory(common).plot
