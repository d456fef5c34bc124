"""Costs of 10^9 environment frames in US dollars, as the SEED RL paper has them, and figures to price.

Cores and accelerators are priced as they are allocated, busy or idle. Measured runs allocate one core for
each actor process, and the cores that the learner uses, rounded up.
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

from seed_rl.files import read_json
from seed_rl.paper import tables

Figures = Mapping[str, float]
# US dollars per hour.
PRICES = {row.resource: row.dollars_per_hour for row in tables.read("seed/table_3")}
_NEEDED = ("frames_per_second", "actor_cpu_secs_per_1000", "learner_cpu_secs_per_1000", "actor_latency_ms")
_CORES = ("actor_cores", "learner_cores")  # Not in files of earlier versions.


def dollars_per_billion(dollars_per_hour: float, frames_per_second: float) -> float:
    """The cost of 10^9 environment frames at a speed."""
    return dollars_per_hour * 1e9 / (3600 * frames_per_second)


def split(row: SimpleNamespace) -> list[float]:
    """The costs of actors, learner and both in a row of Tables 4, 5 or 12, by its resources and Table 3."""
    hourly = row.cpus * PRICES["CPU core"], row.accelerators * PRICES[row.accelerator]
    return [dollars_per_billion(dollars, row.frames_per_second) for dollars in (*hourly, sum(hourly))]


def measured_costs(figures: Figures, core_price: float) -> dict[str, float]:
    """The costs of a run's allocated cores, if their numbers are known, and of its CPU seconds."""
    cores = [figures[name] * core_price for name in _CORES if name in figures]
    costs = [dollars_per_billion(hourly, figures["frames_per_second"]) for hourly in (*cores, sum(cores))]
    allocated = zip(("actors", "learner", "dollars"), costs, strict=True) if len(cores) == 2 else ()
    used = figures["actor_cpu_secs_per_1000"] + figures["learner_cpu_secs_per_1000"]
    return dict(allocated) | {"dollars_used": dollars_per_billion(used * core_price, 1e3)}


def read_measured(path: Path) -> dict[tuple[str, str], Figures]:
    """The figures that `python -m benchmarks impala` has written, by case and way: medians over rounds.

    Raises:
      ValueError: there are none; the message is one sentence.
    """
    rounds: defaultdict[tuple[str, str], list[Figures]] = defaultdict(list)
    try:
        for key, figures in read_json(path).items():
            case, way, _ = key.split("/")
            found = {name: figures[name] for name in (*_NEEDED, *(n for n in _CORES if n in figures))}
            if not all(type(value) in (int, float) and 0 < value < math.inf for value in found.values()):
                raise ValueError(f"{key} has a figure that is not a positive number")
            rounds[case, way].append(found)
        if not rounds:
            raise ValueError("it is empty")
    except (OSError, ValueError, AttributeError, LookupError, TypeError) as error:
        raise ValueError(
            f"{path} has no results of python -m benchmarks impala ({error}); name the file of its --output."
        ) from None
    return {
        key: {
            name: statistics.median(figures[name] for figures in some if name in figures) for name in some[0]
        }
        for key, some in rounds.items()
    }
