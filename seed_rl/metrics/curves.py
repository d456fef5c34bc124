"""The metrics of a run over time: read from its metrics.jsonl, or drawn in block characters."""

import contextlib
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np

from seed_rl.files import parse_json
from seed_rl.messages import warn
from seed_rl.runs.layout import RunDirectory

# When a period ended, which each of them has, rather than how it went.
POSITIONS = ("env_frames", "seconds")

_BLOCKS = "▁▂▃▄▅▆▇█"


class Curve(NamedTuple):
    """One metric of a run, float64 `[N]` each, in ascending order of environment frames.

    Attributes:
      env_frames: environment frames.
      seconds: seconds of training, not counting the time between sessions.
      value: the metric.
    """

    env_frames: np.ndarray
    seconds: np.ndarray
    value: np.ndarray


def read_periods(logdir: str | Path, warn: Callable[[str], None] = warn) -> list[dict[str, Any]]:
    """The metrics of every period of a run, in ascending order of environment frames.

    A run that was killed resumes from its last checkpoint, so the periods between that checkpoint and the end
    of the killed session are recorded twice: the later session counts. A line that a crash or a full disk
    left incomplete is skipped with a warning.

    Raises:
      ValueError: the run has no metrics yet; the message is one sentence.
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
        several = f"{len(torn)} lines from line {torn[0]} on are" if len(torn) > 1 else f"line {torn[0]} is"
        warn(f"{path}: {several} incomplete and skipped.")
    if not periods:
        raise ValueError(f"{path} contains no metrics yet; wait until the run has trained for a while.")
    return periods


def periods_so_far(
    logdir: str | Path, warn: Callable[[str], None] = lambda text: None
) -> list[dict[str, Any]]:
    """The same, by default without warnings; empty if the run has no metrics yet."""
    with contextlib.suppress(ValueError):
        return read_periods(logdir, warn)
    return []


def _period(line: str) -> dict[str, Any] | None:
    """The period that a line records, with all metrics that are finite numbers; None if it is incomplete."""
    try:
        metrics = parse_json(line).items()
    except (ValueError, AttributeError):
        return None
    period = {name: value for name, value in metrics if type(value) in (int, float) and math.isfinite(value)}
    return period if all(period.get(name, -1) >= 0 for name in POSITIONS) else None


def curve(periods: Sequence[dict[str, Any]], name: str) -> Curve:
    """One metric by name, over the periods that report it; empty if none does."""
    found = [p for p in periods if name in p]
    columns = ([p[key] for p in found] for key in ("env_frames", "seconds", name))
    return Curve(*(np.array(column, np.float64) for column in columns))


def final_value(curve: Curve) -> float:
    """The mean over the last tenth of a curve, at least one period; the curve must not be empty."""
    return float(curve.value[-max(1, len(curve.value) // 10) :].mean())


def return_name(periods: Sequence[dict[str, Any]]) -> str:
    """The metric that measures a run: the return in evaluation if it is reported, else in training."""
    evaluated = any("mean_evaluation_return" in p for p in periods)
    return "mean_evaluation_return" if evaluated else "mean_return"


def final_return(periods: Sequence[dict[str, Any]]) -> float | None:
    """The mean over the last tenth of the periods that report a return, at least one; None if none does."""
    returns = curve(periods, return_name(periods))
    return final_value(returns) if len(returns.value) else None


def drawn_curve(points: Sequence[tuple[int, float]], width: int) -> str:
    """A curve in at most `width` block characters, from the first point to the last, evenly over the frames.

    `points` are environment frames, ascending, and values. Empty with fewer than two points.
    """
    if len(points) < 2 or width < 1:
        return ""
    frames, values = np.array(points).T
    shown = np.interp(np.linspace(frames[0], frames[-1], min(width, len(points))), frames, values)
    shares = (shown - shown.min()) / (np.ptp(shown) or 1.0)
    return "".join(_BLOCKS[round(share * (len(_BLOCKS) - 1))] for share in shares)


def can_draw(stream: TextIO) -> bool:
    """Whether a stream's encoding has block characters."""
    try:
        _BLOCKS.encode(stream.encoding or "ascii")
    except (UnicodeError, LookupError):
        return False
    return True
