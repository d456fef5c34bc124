"""Records of runs for the docs: run.json and a part of the metrics, in `docs/records`. No TensorFlow.

`seed_rl plot` and `seed_rl report` read records as they read run directories.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import read_metrics
from benchmarks.learning_runs import Case, notable
from seed_rl.files import write_atomically
from seed_rl.plotting.groups import telling_settings
from seed_rl.runs import record
from seed_rl.runs.layout import RunDirectory

_MOST_PERIODS = 100
_FIGURES = (
    "env_frames",
    "seconds",
    "updates",
    "episodes",
    "mean_return",
    "mean_evaluation_return",
    "entropy",
    "kl_old_new",
    "policy_lag_first_updates",
)


def keep(logdir: Path, to: Path, mark: float | None) -> None:
    """Writes the record of a run.

    Args:
      logdir: the run directory.
      to: the record's directory.
      mark: a mean return; the period that first reached it is kept.
    """
    to.mkdir(parents=True, exist_ok=True)
    periods = read_metrics(logdir)
    lines = [
        {name: periods[index][name] for name in _FIGURES if name in periods[index]}
        for index in _chosen(periods, mark)
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    write_atomically(RunDirectory(to).metrics, text)
    # The last file makes it a record.
    write_atomically(RunDirectory(to).record, RunDirectory(logdir).record.read_text(encoding="utf-8"))


def is_kept(to: Path) -> bool:
    """Whether this directory has a record."""
    return RunDirectory(to).record.exists()


def _chosen(periods: Sequence[dict[str, Any]], mark: float | None) -> list[int]:
    """Evenly spaced periods, with the last one, the best one, and the one that first reached the mark."""
    chosen = set(np.linspace(0, len(periods) - 1, min(len(periods), _MOST_PERIODS)).astype(int).tolist())
    chosen |= {periods.index(period) for period in notable(periods, mark) if period}
    return sorted(chosen)


def changes(kept: Path, case: Case) -> list[str]:
    """Differences between a record's settings and those of a case now, as `NAME: THERE there, MINE now`.

    Raises:
      ValueError: the record cannot be read; one sentence.
    """
    there, mine = (telling_settings(one) for one in (record.read(str(kept)), case.record))
    return record.differences(there, mine)
