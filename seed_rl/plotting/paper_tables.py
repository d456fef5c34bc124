"""Tables 3, 4, 5, 11, 12 and 13 of the SEED RL paper: as printed, recomputed, and measured elsewhere."""

import statistics
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from seed_rl.paper import costs, tables
from seed_rl.plotting.run_tables import Table

# Cases of the benchmark by suite and model.
_CASES = {
    ("dmlab", "Default"): "dmlab",
    ("dmlab", "Medium"): "dmlab_width_2",
    ("dmlab", "Large"): "dmlab_width_4",
    ("football", "Default"): "football",
    ("football", "Medium"): "football_medium",
    ("football", "Large"): "football_large",
}
_WAYS = {"IMPALA": "actor", "SEED": "grpc"}
_ACTION_REPEATS = {"dmlab": 4, "football": 1}  # Tables 6 and 7.
_COSTS_NOTE = (
    "US dollars for 10^9 environment frames, recomputed from the prices of Table 3 and the resources and\n"
    "speeds of Tables 4, 5, 12 and, for Atari, 1; ratios from the printed dollars: IMPALA's by SEED's."
)
_NOTES = {
    "3": "US dollars per hour, recomputed as the median over the costs of Table 11, with the resources and\n"
    "speeds of Tables 4, 5 and 1.",
    "13": "Milliseconds. The time between two steps is environments x action repeat / frames per second of\n"
    "Tables 4 and 5. IMPALA's without its latency is the environment's own time, and SEED's without that is\n"
    "SEED's recomputed latency.",
}
_MEASURED_NOTE = (
    "\nMeasured: medians of python -m benchmarks impala, on stand-ins. IMPALA is its way actor, SEED is\n"
    "grpc. Dollars are at Table 3's price of a CPU core, without accelerators: of allocated cores (one for\n"
    "each actor process, and the learner's, rounded up), and dollars used of CPU seconds."
)


def paper_table(number: str, measured: Mapping[tuple[str, str], costs.Figures]) -> Table:
    """A table, and the measured figures, of which there may be none; see `costs.read_measured`.

    Raises:
      ValueError: there are some, but none for a row of the table; the message is one sentence.
    """
    rows: list[dict[str, Any]] = []
    for row in tables.read(f"seed/table_{number}"):
        suite = getattr(row, "suite", "football" if number == "5" else "dmlab")
        cells = vars(row) | _recomputed(number, suite, row)
        case = _CASES.get((suite, getattr(row, "model", "")), "")
        for architecture, way in _WAYS.items():
            figures = measured.get((case, way))
            if figures and number == "13":
                cells[f"measured_{architecture.lower()}_ms"] = figures["actor_latency_ms"]
            elif figures and architecture == row.architecture:
                found = costs.measured_costs(figures, costs.PRICES["CPU core"])
                cells |= {f"measured_{name}": value for name, value in found.items()}
        rows.append(cells)
        baseline = next(other for other in rows if other.get("model") == cells.get("model"))
        if number in ("4", "5", "12") and baseline is not cells:
            for ratio, name in (("recomputed_ratio", "dollars"), ("measured_ratio", "measured_dollars")):
                if name in baseline and name in cells:
                    cells[ratio] = baseline[name] / cells[name]
    names = dict.fromkeys(name for row in rows for name in row)
    columns = sorted(names, key=lambda name: name.startswith("measured"))
    if measured and not any(name.startswith("measured") for name in columns):
        more = (
            f", or measure: python -m benchmarks impala --cases={','.join(_CASES.values())}"
            if number != "3"
            else ""
        )
        raise ValueError(f"The file has no figures for Table {number}; leave it out{more}.")
    rows[0] = dict.fromkeys(columns) | rows[0]
    return Table(rows, _NOTES.get(number, _COSTS_NOTE) + _MEASURED_NOTE * bool(measured))


def _recomputed(number: str, suite: str, row: SimpleNamespace) -> dict[str, Any]:
    """The cells of a row that follow from other cells of the paper."""
    if number == "3":
        split = [(cost, _resources(cost.suite, cost)) for cost in tables.read("seed/table_11")]
        hourly = [("CPU core", cost.actors_dollars, of.cpus, of) for cost, of in split]
        hourly += [(of.accelerator, cost.learner_dollars, of.accelerators, of) for cost, of in split]
        found = [3.6e-6 * d / n * of.frames_per_second for name, d, n, of in hourly if name == row.resource]
        printed, recomputed = row.dollars_per_hour, statistics.median(found)
        return {"dollars_per_hour": f"{printed:.4f}", "recomputed_dollars_per_hour": f"{recomputed:.4f}"}
    if number == "11":
        parts = costs.split(_resources(suite, row))
        return dict(zip(("recomputed_actors", "recomputed_learner", "recomputed_total"), parts, strict=True))
    if number != "13":
        return {"recomputed_dollars": costs.split(row)[-1]}
    if suite not in _ACTION_REPEATS:
        return {}
    both = [_resources(suite, SimpleNamespace(model=row.model, architecture=name)) for name in _WAYS]
    impala, seed = (1e3 * of.environments * _ACTION_REPEATS[suite] / of.frames_per_second for of in both)
    own_time = impala - row.impala_ms
    return {"environment_ms": own_time, "recomputed_seed_ms": seed - own_time}


def _resources(suite: str, row: SimpleNamespace) -> SimpleNamespace:
    """The row of Table 4, 5 or 1 (with 610 actors) that has a row's resources and speed."""
    if suite == "atari":
        (found,) = (other for other in tables.read("seed/table_1") if other.environments == 610)
        return SimpleNamespace(**vars(found), cpus=found.actor_cpus)
    rows = tables.read("seed/table_4" if suite == "dmlab" else "seed/table_5")
    return next(o for o in rows if (o.model, o.architecture) == (row.model, row.architecture))
