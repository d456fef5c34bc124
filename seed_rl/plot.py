"""Draws what runs have learned: curves over frames and time, a panel a game, medians, or sorted returns.

Examples:
  python -m seed_rl.plot runs/atari_vtrace_Pong --output=pong.png
  python -m seed_rl.plot runs/sweep --style=sorted --output=sweep.svg

Name run directories, or directories of runs. Runs that differ in nothing but their seed are averaged, with a
95% confidence band.
"""

from pathlib import Path

from seed_rl.flags.command_line import parse_options
from seed_rl.flags.errors import UsageError, require_package, run_main, usage_errors
from seed_rl.flags.outputs import check_output
from seed_rl.plotting.config import PACKAGES, PlotConfig


def main(argv: list[str]) -> int:
    """Draws a picture; returns the exit code."""
    config, paths = parse_options(argv, __doc__ or "", PlotConfig, positional=True)
    if not paths:
        raise UsageError("No run is named; add the directories of runs, or a directory that holds some.")
    if config.output is None:
        raise UsageError("No picture is named; add --output=FILE.png (or .svg, or .pdf).")
    for package in PACKAGES:
        require_package(package, "plot")
    output = Path(config.output)
    check_output(output, "output", config.overwrite)
    from seed_rl.plotting.picture import draw_runs, write

    with usage_errors():
        picture = draw_runs(paths, config)
    write(picture, output)
    return 0


if __name__ == "__main__":
    run_main(main)
