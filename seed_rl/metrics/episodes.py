"""Metrics that an environment itself gives of an episode. Actors import this, and no TensorFlow."""

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from seed_rl.messages import one_line, warn

MOST_METRICS = 32
MOST_CHARACTERS = 64

# Failures of environments since an actor's last report, which are added up. No metric of an environment's own
# has this name, which is not printable.
FAILURES = "\0environment_failures"

# Prefixes of the names of means, in metrics and reports.
OWN, OWN_IN_EVALUATION = "episode/", "evaluation_episode/"


def of_info(info: Mapping[Any, Any]) -> dict[str, float]:
    """The metrics in the info dict of an episode's last step.

    A value that is not a number becomes NaN, and a name that is too long becomes another one that is too
    long, so that `OwnMetrics` reports it. At most 33 metrics are read.
    """
    found: dict[str, float] = {}
    try:
        if info.get("is_success") is not None:
            found["is_success"] = _number(info["is_success"])
        metrics = info.get("metrics")
        if metrics is not None and not isinstance(metrics, Mapping):
            metrics = {"metrics": math.nan}
        for name, value in itertools.islice((metrics or {}).items(), MOST_METRICS + 1 - len(found)):
            found[one_line(name, MOST_CHARACTERS + 1)] = _number(value)
    except Exception:  # The objects are the environment's own.
        found["metrics"] = math.nan
    return found


def _number(value: Any) -> float:
    try:
        array = np.asarray(value)
        return float(array.reshape(())) if array.dtype.kind in "biuf" else math.nan
    except Exception:
        return math.nan


class OwnMetrics:
    """Keeps the valid metrics of the episodes of a run. Not thread-safe.

    The first 32 names are those of the run. The first metric that is left out causes a warning, others none.
    """

    def __init__(self) -> None:
        """Starts without names."""
        self._names: set[str] = set()
        self._has_warned = False

    def keep(self, metrics: Mapping[Any, Any]) -> dict[str, float]:
        """The valid ones among the metrics of an episode."""
        found: dict[str, float] = {}
        for name, value in itertools.islice(metrics.items(), MOST_METRICS + 1):
            problem = self._problem(name, value)
            if not problem:
                self._names.add(name)
                found[name] = float(value)
            elif not self._has_warned:
                self._has_warned = True
                shown = one_line(name, MOST_CHARACTERS)
                warn(f"The environment's own figure {shown!r} {problem}; all like it are left out.")
        return found

    def _problem(self, name: Any, value: Any) -> str:
        if not (isinstance(name, str) and 0 < len(name) <= MOST_CHARACTERS and name.isprintable()):
            return f"has no name of 1 to {MOST_CHARACTERS} printable characters"
        if not (isinstance(value, int | float) and math.isfinite(value)):
            return "is not a finite number"
        if name not in self._names and len(self._names) == MOST_METRICS:
            return f"would be one more than the {MOST_METRICS} that a run can have"
        return ""


def means(episodes: Iterable[Mapping[str, float]], prefix: str) -> dict[str, float]:
    """The mean of each metric over the episodes that have it, under `prefix` and its name."""
    values: defaultdict[str, list[float]] = defaultdict(list)
    for name, value in (item for metrics in episodes for item in metrics.items()):
        values[name].append(value)
    return {f"{prefix}{name}": float(np.mean(found)) for name, found in sorted(values.items())}
