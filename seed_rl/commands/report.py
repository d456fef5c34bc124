"""Prints a table of runs (what they trained, for how long, and their returns), or one of the SEED RL paper.

Examples:
  seed_rl report runs
  seed_rl report runs/new runs/old --label=New,Old
  seed_rl report runs --format=csv > runs.csv
  seed_rl report runs/sweep --table=2
  seed_rl report --table=4 runs/impala.json

Pass run directories, or directories that contain runs. Runs that differ only in their seed are one row.
Tables 3, 4, 5, 11, 12 and 13 of the paper (--table) take the file that python -m benchmarks impala writes
instead. With neither, a table of the paper has its rows alone.
"""

import dataclasses
from pathlib import Path

from seed_rl.flags.command_line import parse_options
from seed_rl.flags.errors import UsageError, usage_errors
from seed_rl.messages import say
from seed_rl.options import Options, option
from seed_rl.paper.costs import read_measured
from seed_rl.plotting.groups import Found, gather
from seed_rl.plotting.paper_tables import paper_table
from seed_rl.plotting.run_tables import atari_table, run_table, search_table, speed_table

# By number in the SEED RL paper: what makes a table of runs, and its metric; None is the return.
_OF_RUNS = {
    None: (run_table, None),
    "1": (speed_table, "updates"),
    "2": (search_table, None),
    "10": (atari_table, None),
}
_OF_MEASURED = ("3", "4", "5", "11", "12", "13")


@dataclasses.dataclass(frozen=True)
class ReportConfig(Options):
    """Table of runs to print, and its format."""

    table: str | None = option(
        None,
        "A table of the SEED RL paper. 1: speed by variant, environments and batch size. 2: median, maximum "
        "and minimum over the combinations of settings of each search. 10: each game of Atari-57 with "
        "published scores, and median and mean of the human-normalized ones. 3, 4, 5, 11, 12: prices and "
        "costs; 13: latency; as printed, recomputed and measured. By default, one row per group of runs.",
        choices=("1", "2", "3", "4", "5", "10", "11", "12", "13"),
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
    if config.table in _OF_MEASURED and (len(paths) > 1 or config.label is not None):
        raise UsageError(f"--table={config.table} takes one file of figures, or none, and no --label.")
    if not paths and (config.table is None or config.label is not None):
        raise UsageError("No run is given; add run directories, or a directory that contains some.")
    found = Found([], [])
    with usage_errors():
        if config.table in _OF_MEASURED:
            table = paper_table(config.table, read_measured(Path(paths[0])) if paths else {})
        else:
            make, metric = _OF_RUNS[config.table]
            found = gather(paths, metric) if paths else found
            table = make(found.groups, config.label)
    for reason in found.skipped:
        say(f"skipped: {reason}")
    print(table.as_csv() if config.format == "csv" else table.as_markdown(), end="")
    return 0
