"""Settings of a plot and of a table of runs. Imports no TensorFlow and no matplotlib."""

import dataclasses

from seed_rl.options import Options, option

# The packages that plotting needs besides the project itself.
PACKAGES = ("matplotlib", "scipy")

ENDINGS = (".png", ".svg", ".pdf")

_LABEL = "Names, separated by commas, in place of our own labels, in the order in which the runs are given."
_OVERWRITE = "Overwrite a file that --output names."


@dataclasses.dataclass(frozen=True)
class PlotConfig(Options):
    """What to plot, how, and where the plot goes."""

    output: str | None = option(
        None,
        "File for the plot; its ending sets the format: .png, .svg or .pdf. By default plot.png in the run "
        "directory, or in the directory that the runs have in common, where an earlier one is replaced.",
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
    label: str | None = option(None, _LABEL)
    metric: str | None = option(
        None,
        "The metric in metrics.jsonl to plot; by default the mean return, from evaluation environments "
        "where all runs compared have them.",
    )
    title: str | None = option(None, "Title; by default the game if there is only one. Use '' for no title.")
    lowest: float | None = option(None, "Lowest value on the vertical axis.")
    highest: float | None = option(None, "Highest value on the vertical axis.")
    overwrite: bool = option(False, _OVERWRITE)

    def validate(self) -> None:
        """Checks the file's format, that only returns are normalized, and that the axis has a valid range."""
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
        if self.lowest is not None and self.highest is not None and self.lowest >= self.highest:
            raise ValueError(f"--lowest={self.lowest} must be less than --highest={self.highest}.")


@dataclasses.dataclass(frozen=True)
class ReportConfig(Options):
    """Which table of runs to print, its format, and where it goes."""

    table: str | None = option(
        None,
        "A table of the SEED RL paper. 1: speed by variant, environments and batch size. 2: median, maximum "
        "and minimum over the combinations of settings of each search. 10: each game of Atari-57 with "
        "published scores, and median and mean of the human-normalized ones. By default, one row per group "
        "of runs.",
        choices=("1", "2", "10"),
    )
    format: str = option(
        "markdown",
        "markdown: a table to read and to paste. csv: all digits, for other programs.",
        choices=("markdown", "csv"),
    )
    output: str | None = option(None, "File for the table; by default the terminal.", is_path=True)
    label: str | None = option(None, _LABEL)
    overwrite: bool = option(False, _OVERWRITE)
