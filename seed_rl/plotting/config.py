"""Settings of a plot of runs. Imports no TensorFlow and no matplotlib."""

import dataclasses

from seed_rl.options import Options, option

# The packages that plotting needs besides the project itself.
PACKAGES = ("matplotlib", "scipy")

ENDINGS = (".png", ".svg", ".pdf")


@dataclasses.dataclass(frozen=True)
class PlotConfig(Options):
    """What to plot, how, and where the plot goes."""

    output: str | None = option(
        None, "File for the plot; its ending sets the format: .png, .svg or .pdf.", is_path=True
    )
    style: str = option(
        "curves",
        "curves: against environment frames and against time. grid: a small panel for each game. "
        "median_human_normalized: the median over games of the human-normalized return, in percent. sorted: "
        "the final return of each run, from best to worst (for sweeps).",
        choices=("curves", "grid", "median_human_normalized", "sorted"),
    )
    metric: str | None = option(
        None,
        "The metric in metrics.jsonl to plot; by default the mean return, from evaluation environments "
        "where a run has them.",
    )
    title: str | None = option(None, "Title; by default the game if there is only one. Use '' for no title.")
    lowest: float | None = option(
        None,
        "Lowest value on the vertical axis; with the game's full range, noise does not look like learning.",
    )
    highest: float | None = option(None, "Highest value on the vertical axis.")
    overwrite: bool = option(False, "Overwrite a plot that already exists.")

    def validate(self) -> None:
        """Checks the file's format, that only returns are normalized, and that the axis has a valid range."""
        if self.output is not None and not self.output.lower().endswith(ENDINGS):
            raise ValueError(
                f"--output={self.output} has no supported format; its name must end in one of: "
                f"{', '.join(ENDINGS)}."
            )
        returns = (None, "mean_return", "mean_evaluation_return")
        if self.style == "median_human_normalized" and self.metric not in returns:
            raise ValueError(
                f"--metric={self.metric} cannot be normalized by human scores; choose mean_return or "
                "mean_evaluation_return, or another --style."
            )
        if self.lowest is not None and self.highest is not None and self.lowest >= self.highest:
            raise ValueError(f"--lowest={self.lowest} must be less than --highest={self.highest}.")
