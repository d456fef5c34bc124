"""Settings of a picture of runs. Imports no TensorFlow and no matplotlib."""

import dataclasses

from seed_rl.options import Options, option

# What drawing needs besides the project itself.
PACKAGES = ("matplotlib", "scipy")

ENDINGS = (".png", ".svg", ".pdf")


@dataclasses.dataclass(frozen=True)
class PlotConfig(Options):
    """What is drawn, how, and where the picture goes."""

    output: str | None = option(
        None, "File of the picture; its ending decides the format: .png, .svg or .pdf."
    )
    style: str = option(
        "curves",
        "curves: against environment frames and against time. grid: a small panel for each game. "
        "median_human_normalized: the median over games of the return in percent of a human's. sorted: the "
        "final return of each run, from best to worst (for sweeps).",
        choices=("curves", "grid", "median_human_normalized", "sorted"),
    )
    metric: str | None = option(
        None,
        "Which figure of metrics.jsonl is drawn; by default the mean return, of evaluation environments "
        "where a run has them.",
    )
    title: str | None = option(None, "Title; by default the game where there is only one, and '' for none.")
    lowest: float | None = option(
        None, "Lowest value of the vertical axis; with the game's range, noise does not look like learning."
    )
    highest: float | None = option(None, "Highest value of the vertical axis.")
    overwrite: bool = option(False, "Write over a picture that is there already.")

    def validate(self) -> None:
        """The format follows from the file's name; only returns can be normalised; the range is one."""
        if self.output is not None and not self.output.lower().endswith(ENDINGS):
            raise ValueError(f"--output={self.output} has no format; end it in {', '.join(ENDINGS)}.")
        returns = (None, "mean_return", "mean_evaluation_return")
        if self.style == "median_human_normalized" and self.metric not in returns:
            raise ValueError(
                f"--metric={self.metric} cannot be normalised by human scores; choose mean_return or "
                "mean_evaluation_return, or another --style."
            )
        if self.lowest is not None and self.highest is not None and self.lowest >= self.highest:
            raise ValueError(f"--lowest={self.lowest} must be less than --highest={self.highest}.")
