"""The figures of a run over time, out of its metrics.jsonl."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from seed_rl.messages import warn
from seed_rl.runs.layout import RunDirectory


class Curve(NamedTuple):
    """One figure of a run, float64 `[N]` each, in ascending order of environment frames.

    Attributes:
      env_frames: environment frames.
      seconds: of training, time between sessions not counted.
      value: the figure.
    """

    env_frames: np.ndarray
    seconds: np.ndarray
    value: np.ndarray


def read_periods(logdir: str | Path) -> list[dict[str, Any]]:
    """The figures of every period of a run, in ascending order of environment frames.

    A run that was killed is resumed from its last checkpoint, so the periods between that and the end of the
    killed session were played twice: the later session counts. A line that a crash or a full disk left
    incomplete is left out, with a warning.

    Args:
      logdir: the run directory.

    Raises:
      ValueError: it has no metrics yet; one sentence.
    """
    path = RunDirectory(Path(logdir)).metrics
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        raise ValueError(
            f"{logdir} has no {path.name}; name the --logdir of a run that has started."
        ) from None
    periods: list[dict[str, Any]] = []
    torn: list[int] = []
    for number, line in enumerate(lines, start=1):
        period = _period(line)
        if period is None:
            torn.append(number)
            continue
        while periods and periods[-1]["env_frames"] >= period["env_frames"]:
            periods.pop()
        periods.append(period)
    if torn:
        several = f"lines {', '.join(map(str, torn))} are" if len(torn) > 1 else f"line {torn[0]} is"
        warn(f"{several} incomplete in {path} and left out.")
    if not periods:
        raise ValueError(f"{path} holds no figures yet; wait until the run has trained for a while.")
    return periods


def _period(line: str) -> dict[str, Any] | None:
    """What a line says; None if it is incomplete."""
    try:
        period = json.loads(line)
        return period if isinstance(period["env_frames"], (int, float)) else None
    except (ValueError, KeyError, TypeError):
        return None


def curve(periods: Sequence[dict[str, Any]], name: str) -> Curve:
    """One figure by name, over the periods that have it; empty where none has."""
    found = [p for p in periods if p.get(name) is not None]
    columns = ([p[key] for p in found] for key in ("env_frames", "seconds", name))
    return Curve(*(np.array(column, np.float64) for column in columns))


def final_value(curve: Curve) -> float:
    """What a curve ends with: the mean over its last tenth, at least one period; it must not be empty."""
    return float(curve.value[-max(1, len(curve.value) // 10) :].mean())


def return_name(periods: Sequence[dict[str, Any]]) -> str:
    """The figure that tells how well a run does: that of evaluation environments where it has them."""
    evaluated = any(p.get("mean_evaluation_return") is not None for p in periods)
    return "mean_evaluation_return" if evaluated else "mean_return"


def final_return(periods: Sequence[dict[str, Any]]) -> float | None:
    """Mean of the return over the last tenth of the periods that have one, at least one; None without any."""
    returns = curve(periods, return_name(periods))
    return final_value(returns) if len(returns.value) else None
