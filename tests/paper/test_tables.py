"""The papers' tables agree with their own arithmetic, but for the contradictions that are listed."""

import csv
import re
import statistics
from pathlib import Path

import pytest

import seed_rl
from seed_rl.paper import costs, tables
from seed_rl.runs.scores import published_scores

DATA = Path(seed_rl.__file__).parent
SPEEDS = tables.read("seed/table_1")
DMLAB, FOOTBALL, DMLAB_P100 = (tables.read(f"seed/table_{table}") for table in (4, 5, 12))


@pytest.mark.parametrize(
    "name, num_rows, last",
    [
        ("seed/table_1", 15, ("atari", "SEED", "Default", "TPU v3 core", 8, None, 1200, 419, 256, 440_000)),
        ("seed/table_2", 12, ("scoring,checkpoints", "SEED", "TPU v3 core", 32, "Large", None, 7.66)),
        ("seed/table_13", 7, ("atari", "Default", None, 7.2)),
        ("accelerated_methods/table_1", 4, (512, 35.8, 38.4)),
        ("accelerated_methods/table_3", 4, ("Categorical DQN", 2048, 10.7, 6.0, 2.8, 1.8)),
    ],
)
def test_rows_have_numbers_and_none_where_nothing_is_printed(name, num_rows, last):
    rows = tables.read(name)
    assert len(rows) == num_rows
    assert tuple(vars(rows[-1]).values())[: len(last)] == last


# Printed costs that do not follow from the paper's own prices, resources and speed: those that do.
OTHER_COSTS = {("SEED", "Default", "TPU v3 core", 25): 26.05}


@pytest.mark.parametrize(
    "row", [*DMLAB, *FOOTBALL, *DMLAB_P100], ids=lambda row: f"{row.architecture} {row.model} {row.dollars}"
)
def test_costs_follow_from_prices_and_speeds(row):
    found = costs.split(row)[-1]
    if other := OTHER_COSTS.get((row.architecture, row.model, row.accelerator, row.dollars)):
        assert found == pytest.approx(other, abs=0.005) and found - row.dollars > 1
    else:
        assert abs(found - row.dollars) < 1  # Some are rounded up, others down.


@pytest.mark.parametrize("suite, table", [("dmlab", DMLAB), ("football", FOOTBALL)])
def test_table_11_splits_the_costs_of_tables_4_and_5(suite, table):
    splits = {
        (row.model, row.architecture): row for row in tables.read("seed/table_11") if row.suite == suite
    }
    assert len(splits) == len(table)
    for row in table:
        split = splits[row.model, row.architecture]
        assert abs(split.actors_dollars + split.learner_dollars - split.total_dollars) < 1
        by_price = split.actors_dollars / costs.split(row)[0], split.learner_dollars / costs.split(row)[1]
        if row.dollars == 25:  # The first contradiction: Table 11 has the costs of a lower speed, about 68K.
            assert split.total_dollars == 28
            assert by_price == pytest.approx((1.084, 1.092), abs=0.0005)
        else:
            assert split.total_dollars == row.dollars
            assert by_price == pytest.approx((1, 1), rel=0.01)


@pytest.mark.parametrize("row", [row for row in SPEEDS if row.ratio], ids=lambda row: row.ratio)
def test_ratios_of_table_1_follow_from_its_speeds(row):
    alike = [other for other in SPEEDS if (other.suite, other.model) == (row.suite, row.model)]
    decimals = 2 if row.ratio < 1 else 1
    assert round(row.frames_per_second / alike[0].frames_per_second, decimals) == row.ratio


def cost(table, architecture, model):
    (row,) = (row for row in table if (row.architecture, row.model) == (architecture, model))
    return row


def cost_ratio(model):
    return cost(FOOTBALL, "IMPALA", model).dollars / cost(FOOTBALL, "SEED", model).dollars


def default_latency():
    """SEED's latency on Football, Default: its time from step to step without the environment's own."""
    rows = tables.read("seed/table_13")
    (latency,) = (row.impala_ms for row in rows if (row.suite, row.model) == ("football", "Default"))
    impala, seed = (cost(FOOTBALL, architecture, "Default") for architecture in ("IMPALA", "SEED"))
    between = [1e3 * row.environments / row.frames_per_second for row in (impala, seed)]
    return between[1] - (between[0] - latency)


def updates_per_second():
    """R2D2's updates per second with 1,200 actors, by its frames per second and Tables 8 and 9."""
    (row,) = (row for row in SPEEDS if row.preset == "atari_r2d2_1200_actors")
    value = {
        row.option: row.value for row in tables.read("seed/settings") if row.source in ("Table 8", "Table 9")
    }
    sequences = row.frames_per_second / int(value["num_action_repeats"]) / int(value["unroll_length"])
    return sequences * float(value["replay_ratio"]) / row.batch_size


def median_score():
    with open(DATA / "runs/data/atari57_scores.csv", newline="", encoding="utf-8") as file:
        scores = {row["game"]: float(row["seed_8_tpu_v3"]) for row in csv.DictReader(file)}
    return statistics.median(
        published_scores("atari", game).human_normalized(score) for game, score in scores.items()
    )


def side(pixels, padding):
    """A side of the picture after A3C's two convolutions: 8x8 with stride 4, 4x4 with stride 2."""
    return ((pixels - 8) // 4 + 1 + 2 * padding - 4) // 2 + 1


def speed_up(algorithm):
    hours = [row for table in (2, 3) for row in tables.read(f"accelerated_methods/table_{table}")]
    (row,) = (row for row in hours if row.algorithm == algorithm)
    return row.gpus_1 / row.gpus_8


DEFAULT = cost(DMLAB, "SEED", "Default")
MEDIUM = cost(FOOTBALL, "SEED", "Medium")
ON_P100 = cost(DMLAB_P100, "SEED", "Default")
LEARNER_SHARES = [
    100 * row.learner_dollars / row.total_dollars
    for row in tables.read("seed/table_11")
    if (row.suite, row.architecture) == ("dmlab", "SEED")
]
SECOND = {
    "$28": 20.1 + 8.2,
    "$26.1": costs.split(DEFAULT)[-1],
    "1.60": cost_ratio("Default"),
    "2.44": cost_ratio("Large"),
    "38%": 100 * (1 - 1 / cost_ratio("Default")),
    "77%": 100 * (1 - cost(DMLAB, "SEED", "Large").dollars / cost(DMLAB, "IMPALA", "Large").dollars),
    "29%,": LEARNER_SHARES[0],
    "17.5K": cost(FOOTBALL, "SEED", "Default").frames_per_second / 1e3,
    "4.0 updates": updates_per_second(),
    "11.9 ms": default_latency(),
    "152 GB/s": (100_000 / 20 * 30e6 + 100_000 * 96 * 72 * 3) / 1e9,
    "10": MEDIUM.environments / MEDIUM.actors,
    "11.7": ON_P100.environments / ON_P100.actors,
    "60": 4 * cost(DMLAB_P100, "SEED", "Default").actors,
    "1846%": median_score(),
    "176": SPEEDS[1].environments,
    "12x9": side(104, 1),
    "0.0040": 0.0007 * (512 / 16) ** 0.5,
    "4.0": speed_up("PPO"),
    "5.9": speed_up("Categorical DQN"),
}


def test_the_second_value_of_each_contradiction_follows_from_the_paper():
    assert len(tables.read("contradictions")) == len(SECOND)
    for row, (printed, value) in zip(tables.read("contradictions"), SECOND.items(), strict=True):
        assert printed.split()[0] == row.second.split()[0]
        number = re.search(r"[\d.]+", row.second)[0]
        decimals = len(number.partition(".")[2])
        assert round(value, decimals) == float(number), row
    assert (side(104, 1), side(80, 1)) == (12, 9)
    assert [round(share) for share in LEARNER_SHARES] == [29, 47, 65]
