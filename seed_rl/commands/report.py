"""Prints a table of runs: what they trained, for how long, and the returns that they reached.

Examples:
  seed_rl report runs
  seed_rl report runs/new runs/old --label=New,Old
  seed_rl report runs --format=csv > runs.csv
  seed_rl report runs/sweep --table=2

Pass run directories, or directories that contain runs. Runs that differ only in their seed are one row. The
tables of --table are those of the SEED RL paper.
"""

import dataclasses

from seed_rl.flags.command_line import parse_options
from seed_rl.flags.errors import UsageError, usage_errors
from seed_rl.messages import say
from seed_rl.options import Options, option
from seed_rl.plotting.groups import gather
from seed_rl.plotting.run_tables import atari_table, run_table, search_table, speed_table

# By number in the SEED RL paper: what makes the table, and the metric that it needs; None is the return.
_TABLES = {
    None: (run_table, None),
    "1": (speed_table, "updates"),
    "2": (search_table, None),
    "10": (atari_table, None),
}


@dataclasses.dataclass(frozen=True)
class ReportConfig(Options):
    """Table of runs to print, and its format."""

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
    label: str | None = option(
        None,
        "Names, separated by commas, in place of our own labels, in the order in which the runs are given.",
    )


def main(argv: list[str]) -> int:
    """Prints the table; returns the exit code."""
    config, paths = parse_options(argv, __doc__ or "", ReportConfig, positional=None)
    if not paths:
        raise UsageError("No run is given; add run directories, or a directory that contains some.")
    with usage_errors():
        make, metric = _TABLES[config.table]
        found = gather(paths, metric)
        table = make(found.groups, config.label)
    for reason in found.skipped:
        say(f"skipped: {reason}")
    print(table.as_csv() if config.format == "csv" else table.as_markdown(), end="")
    return 0
