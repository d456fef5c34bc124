"""The results of a sweep: one row per trial, best first, as CSV and as text."""

import csv
import io
import math
import re
import statistics
from collections.abc import Sequence
from typing import Any

from seed_rl.files import write_atomically
from seed_rl.sweeps import outcome as outcomes
from seed_rl.sweeps.trials import Sweep, trial_directory


def collect(sweep: Sweep) -> list[dict[str, Any]]:
    """The rows of all trials, best first, with those without a return last.

    Trials and seeds that are in the directory but not part of this session are included.

    Returns:
      For each trial, in the order of the table's columns: `trial`, its number; the values drawn, by flag;
      `final_return`, the mean over seeds; `standard_error`, that of the mean, from the sample standard
      deviation; `seeds_done` and `seeds_failed`, numbers of runs. None: it is unknown yet.

    Raises:
      ValueError: an outcome cannot be read; the message is one sentence.
    """
    found = (re.fullmatch(r"trial_(\d+)", path.name) for path in sweep.directory.glob("trial_*"))
    trials = {*range(1, sweep.trials + 1), *(int(match[1]) for match in found if match)}
    rows = [_row(sweep, trial) for trial in sorted(trials)]
    known = [row for row in rows if row["final_return"] is not None]
    unknown = [row for row in rows if row["final_return"] is None]
    return sorted(known, key=lambda row: row["final_return"], reverse=True) + unknown


def write(sweep: Sweep, rows: Sequence[dict[str, Any]]) -> None:
    """Writes table.csv into the sweep's directory."""
    text = io.StringIO()
    table = csv.DictWriter(text, list(rows[0]))
    table.writeheader()
    table.writerows(rows)
    write_atomically(sweep.directory / "table.csv", text.getvalue())


def as_text(rows: Sequence[dict[str, Any]]) -> str:
    """The rows as an aligned table, with numbers rounded to four significant digits."""
    cells = [list(rows[0]), *(list(map(_short, row.values())) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in cells)
    return "\n".join(lines)


def _row(sweep: Sweep, trial: int) -> dict[str, Any]:
    paths = sorted(trial_directory(sweep.directory, trial).glob("seed_*.json"))
    ended = [found for found in map(outcomes.read, paths) if found is not None]
    returns = [found.final_return for found in ended if found.final_return is not None]
    return {
        "trial": trial,
        **sweep.values(trial),
        "final_return": statistics.fmean(returns) if returns else None,
        "standard_error": statistics.stdev(returns) / math.sqrt(len(returns)) if len(returns) > 1 else None,
        "seeds_done": sum(not found.failed for found in ended),
        "seeds_failed": sum(found.failed for found in ended),
    }


def _short(cell: Any) -> str:
    if cell is None:
        return ""
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)
