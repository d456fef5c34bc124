"""The results of a sweep: one row per trial, best first, as CSV and as text, and which flags matter."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import optuna
from optuna.trial import TrialState

from seed_rl.files import write_atomically
from seed_rl.sweeps.study import final_return, latest, outcomes

# With fewer trials the estimate is mostly noise.
_ENOUGH_TRIALS = 10


def collect(study: optuna.Study) -> list[dict[str, Any]]:
    """The rows of all trials, best first, with those without a return last.

    Trials and seeds that are not part of this session are included.

    Returns:
      For each trial, in the order of the table's columns: `trial`, its number; the values drawn, by flag;
      `final_return`, the mean over seeds; `standard_error`, that of the mean, from the sample standard
      deviation; `seeds_done` and `seeds_failed`, numbers of runs; `state`, one of complete, pruned, failed
      and running. None: it is unknown yet.
    """
    rows = []
    for number, trial in latest(study).items():
        ended = outcomes(trial).values()
        mean, error = final_return(trial)
        rows.append(
            {
                "trial": number,
                **dict(sorted(trial.params.items())),
                "final_return": mean,
                "standard_error": error,
                "seeds_done": sum(not found.failed for found in ended),
                "seeds_failed": sum(found.failed for found in ended),
                "state": "failed" if trial.state == TrialState.FAIL else trial.state.name.lower(),
            }
        )
    known = [row for row in rows if row["final_return"] is not None]
    unknown = [row for row in rows if row["final_return"] is None]
    return sorted(known, key=lambda row: row["final_return"], reverse=True) + unknown


def write(directory: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Writes table.csv into the sweep's directory."""
    text = io.StringIO()
    table = csv.DictWriter(text, list(rows[0]))
    table.writeheader()
    table.writerows(rows)
    write_atomically(directory / "table.csv", text.getvalue())


def as_text(rows: Sequence[dict[str, Any]]) -> str:
    """The rows as an aligned table, with numbers rounded to four significant digits."""
    cells = [list(rows[0]), *(list(map(short, row.values())) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in cells)
    return "\n".join(lines)


def importances(study: optuna.Study) -> dict[str, float]:
    """How much of the difference between good and other trials each flag explains, by flag; they add up to 1.

    They are Optuna's (PED-ANOVA; Watanabe et al., 2023). Empty for fewer than ten complete trials.
    """
    complete = [trial for trial in latest(study).values() if trial.state == TrialState.COMPLETE]
    if len(complete) < _ENOUGH_TRIALS:
        return {}
    return optuna.importance.get_param_importances(study)


def short(cell: Any) -> str:
    """A value with at most four significant digits; '' for None."""
    if cell is None:
        return ""
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)
