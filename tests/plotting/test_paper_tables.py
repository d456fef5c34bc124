"""Tables 3, 4, 5, 11, 12 and 13 of the SEED RL paper: recomputed and measured cells."""

import pytest

from seed_rl.paper import costs
from seed_rl.plotting.paper_tables import paper_table

# Cells that the paper's own numbers contradict: the recomputed one there (contradictions.csv).
CONTRADICTED = {
    ("4", "SEED", "Default", "dollars"): 26.05,
    ("5", "SEED", "Default", "ratio"): 1.603,
    ("5", "SEED", "Large", "ratio"): 2.436,
    ("11", "dmlab", "SEED", "Default", "actors_dollars"): 18.54,
    ("11", "dmlab", "SEED", "Default", "learner_dollars"): 7.51,
    ("11", "dmlab", "SEED", "Default", "total_dollars"): 26.05,
    ("13", "football", "Default", "seed_ms"): 11.88,
}
# By table: the printed column, the recomputed one, and how far they may be apart by rounding.
COSTS = [("dollars", "recomputed_dollars", 1.0), ("ratio", "recomputed_ratio", 0.006)]
PAIRS = {
    "3": [("dollars_per_hour", "recomputed_dollars_per_hour", 0.005)],
    **dict.fromkeys(("4", "5", "12"), COSTS),
    "11": [
        ("actors_dollars", "recomputed_actors", 0.9),
        ("learner_dollars", "recomputed_learner", 0.4),
        ("total_dollars", "recomputed_total", 1.0),
    ],
    "13": [("seed_ms", "recomputed_seed_ms", 0.5)],
}


def test_recomputed_cells_are_the_printed_ones_but_for_the_contradictions():
    contradicted = {}
    for number, pairs in PAIRS.items():
        for row in paper_table(number, {}).rows:
            key = tuple(row[name] for name in ("suite", "architecture", "model") if name in row)
            for printed, recomputed, tolerance in pairs:
                cells = row.get(printed), row.get(recomputed)
                if cells[1] is not None and abs(float(cells[0]) - float(cells[1])) > tolerance:
                    contradicted[number, *key, printed] = cells[1]
    assert contradicted == pytest.approx(CONTRADICTED, abs=0.005)


def test_environments_take_the_same_time_with_every_size_of_the_network():
    """The paper says so of Football (section 4.4.2)."""
    times = {suite: [] for suite in ("dmlab", "football", "atari")}
    for row in paper_table("13", {}).rows:
        times[row["suite"]].append(row.get("environment_ms"))
    assert times["dmlab"] == pytest.approx([5.5, 5.66, 6.0], abs=0.005)
    assert times["football"] == pytest.approx([23.77, 23.62, 22.4], abs=0.005)
    assert times["atari"] == [None]


def figures(speed, **more):
    seconds = {"actor_cpu_secs_per_1000": 20.0, "learner_cpu_secs_per_1000": 10.0}
    return {"frames_per_second": speed, "actor_latency_ms": 1e3 / speed, **seconds, **more}


CORES = {"actor_cores": 2, "learner_cores": 2}
MEASURED = {
    ("dmlab", "actor"): figures(50.0, **CORES),
    ("dmlab", "grpc"): figures(80.0, **CORES),
    ("dmlab", "shared_memory"): figures(1.0, **CORES),
    ("dmlab_width_2", "actor"): figures(40.0, **CORES),
    ("football_large", "grpc"): figures(25.0),
}


@pytest.mark.parametrize("number", ["4", "12"])
def test_measured_cells_are_in_the_rows_of_their_case_and_way(number):
    by_row = {(row["architecture"], row["model"]): row for row in paper_table(number, MEASURED).rows}
    price = costs.PRICES["CPU core"]
    impala, seed = by_row["IMPALA", "Default"], by_row["SEED", "Default"]
    assert impala["measured_dollars"] == pytest.approx(4 * price * 1e9 / 3600 / 50)
    assert seed["measured_actors"] == pytest.approx(2 * price * 1e9 / 3600 / 80)
    assert seed["measured_dollars_used"] == pytest.approx(30 * price * 1e6 / 3600)
    assert seed["measured_ratio"] == pytest.approx(80 / 50)
    if number == "4":
        assert by_row["IMPALA", "Medium"]["measured_dollars"] > impala["measured_dollars"]
        assert (
            "measured_dollars" not in by_row["SEED", "Medium"]
            and "measured_ratio" not in by_row["SEED", "Medium"]
        )


def test_files_without_allocated_cores_give_the_costs_of_seconds():
    rows = paper_table("5", MEASURED).rows
    (row,) = (row for row in rows if row.get("measured_dollars_used"))
    assert (row["architecture"], row["model"], row.get("measured_dollars")) == ("SEED", "Large", None)
    assert "measured dollars used" in paper_table("5", MEASURED).as_markdown()


def test_measured_latencies_are_those_of_both_ways():
    rows = {(row["suite"], row["model"]): row for row in paper_table("13", MEASURED).rows}
    assert rows["dmlab", "Default"]["measured_impala_ms"] == 20.0
    assert rows["dmlab", "Default"]["measured_seed_ms"] == 12.5
    assert rows["football", "Large"]["measured_seed_ms"] == 40.0
    assert [row["suite"] for row in paper_table("11", MEASURED).rows if row.get("measured_dollars")] == [
        "dmlab"
    ] * 3


def test_csv_has_every_column_also_where_the_first_row_has_no_figure():
    measured = {("football", "grpc"): figures(80.0, **CORES)}
    text = paper_table("5", measured).as_csv()
    header, first, *_ = text.splitlines()
    assert header.endswith("measured_actors,measured_learner,measured_dollars,measured_dollars_used")
    assert first.endswith(",,,,") and len(text.splitlines()) == 7


@pytest.mark.parametrize("number", ["3", "5", "11"])
def test_figures_of_other_cases_are_refused(number):
    with pytest.raises(ValueError, match=f"no figures for Table {number}; leave it out"):
        paper_table(number, {("pong", "grpc"): figures(1.0)})
