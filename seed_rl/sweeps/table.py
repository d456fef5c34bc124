"""The results of a sweep: one row per trial, best first, as CSV and as text."""

import csv
import dataclasses
import io
import math
import re
import statistics
from collections.abc import Sequence
from typing import Any

from seed_rl.files import write_atomically
from seed_rl.sweeps import outcome as outcomes
from seed_rl.sweeps.space import Value
from seed_rl.sweeps.trials import Sweep, trial_directory

_FIGURES = ("final_return", "standard_error", "seeds_done", "seeds_failed")


@dataclasses.dataclass(frozen=True)
class Row:
    """The results of a trial.

    Attributes:
      trial: the number of the trial.
      values: the values drawn, by flag.
      final_return: mean of the final returns over seeds; None if there is none yet.
      standard_error: the standard error of that mean, from the sample standard deviation; None for fewer than
        two seeds.
      seeds_done: number of complete runs.
      seeds_failed: number of failed runs.
    """

    trial: int
    values: dict[str, Value]
    final_return: float | None
    standard_error: float | None
    seeds_done: int
    seeds_failed: int


def collect(sweep: Sweep) -> list[Row]:
    """The rows of all trials, best first, with those without a return last.

    Trials and seeds that are in the directory but not part of this session are included.

    Raises:
      ValueError: an outcome cannot be read; the message is one sentence.
    """
    found = (re.fullmatch(r"trial_(\d+)", path.name) for path in sweep.directory.glob("trial_*"))
    trials = {*range(1, sweep.trials + 1), *(int(match[1]) for match in found if match)}
    rows = [_row(sweep, trial) for trial in sorted(trials)]
    return sorted(
        rows, key=lambda row: -math.inf if row.final_return is None else row.final_return, reverse=True
    )


def write(sweep: Sweep, rows: Sequence[Row]) -> None:
    """Writes table.csv into the sweep's directory."""
    text = io.StringIO()
    csv.writer(text).writerows(_cells(sweep, rows))
    write_atomically(sweep.directory / "table.csv", text.getvalue())


def as_text(sweep: Sweep, rows: Sequence[Row]) -> str:
    """The rows as an aligned table, with numbers rounded to four significant digits."""
    cells = [[_short(cell) for cell in row] for row in _cells(sweep, rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in cells)
    return "\n".join(lines)


def _row(sweep: Sweep, trial: int) -> Row:
    paths = sorted(trial_directory(sweep.directory, trial).glob("seed_*.json"))
    ended = [found for found in map(outcomes.read, paths) if found is not None]
    returns = [found.final_return for found in ended if found.final_return is not None]
    several = len(returns) > 1
    return Row(
        trial=trial,
        values=sweep.values(trial),
        final_return=statistics.fmean(returns) if returns else None,
        standard_error=statistics.stdev(returns) / math.sqrt(len(returns)) if several else None,
        seeds_done=sum(not found.failed for found in ended),
        seeds_failed=sum(found.failed for found in ended),
    )


def _cells(sweep: Sweep, rows: Sequence[Row]) -> list[list[Any]]:
    """The table with its header; '' for unknown values."""
    flags = list(sweep.space.parameters)
    body = [
        [
            row.trial,
            *(row.values[flag] for flag in flags),
            *("" if (figure := getattr(row, name)) is None else figure for name in _FIGURES),
        ]
        for row in rows
    ]
    return [["trial", *flags, *_FIGURES], *body]


def _short(cell: Any) -> str:
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)
