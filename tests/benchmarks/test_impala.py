"""SEED against IMPALA, and its cost: small runs."""

import json

import pytest

from benchmarks import cost
from tests.benchmarks.running import result

pytest.importorskip("tensorflow", reason="no TensorFlow")


def measured(ratios):
    """Widths at which actors that act cost so many times what central inference does."""
    return {
        (case, way): {
            "actor_cpu_secs_per_1000": 1.0 * (ratio if way == "actor" else 1),
            "learner_cpu_secs_per_1000": 0.0,
        }
        for case, ratio in zip(("pong", "width_2", "width_4"), ratios, strict=True)
        for way in ("actor", "grpc")
    }


@pytest.mark.parametrize(
    ("ratios", "words"),
    [
        ((0.5, 2.0, 4.0), "cheaper from width 1.4."),
        ((0.25, 0.5, 2.0), "cheaper from width 2.8."),
        ((1.5, 2.0, 4.0), "central inference is cheaper at every width"),
        ((0.5, 0.6, 0.7), "actors that act are cheaper at every width"),
        ((2.0, 0.5, 0.4), "cheaper up to width 1.4."),
    ],
)
def test_the_width_at_which_both_cost_the_same(ratios, words):
    assert words in cost.break_even(measured(ratios), "grpc")
    assert cost.break_even({}, "grpc") == "no widths were measured."


@pytest.mark.slow
def test_a_comparison_goes_on_where_it_stopped_and_is_priced(tmp_path):
    path = tmp_path / "impala.json"
    row = {
        **{"frames_per_second": 100.0, "actor_cpu_secs_per_1000": 2.0, "learner_cpu_secs_per_1000": 1.0},
        **{"bytes_sent_per_frame": 1.0, "bytes_received_per_frame": 1.0, "lag_first_updates": 1.0},
        **{"lag_last_updates": 1.0, "actor_latency_ms": 1.0, "actor_cores": 2, "learner_cores": 1},
    }
    earlier = {name: value for name, value in row.items() if not name.endswith("_cores")}
    results = {"envs_1/grpc/0": row, "envs_1/shared_memory/0": row, "envs_1/actor/0": earlier}
    path.write_text(json.dumps(results))
    flags = ("--cases=envs_1", "--seconds=1", "--warm_up_secs=0", f"--output={path}", "--torso=shallow")
    found = result("impala", *flags)
    assert found["envs_1/grpc"] == row
    ours = found["envs_1/actor"]
    assert all(
        ours[name] > 0 for name in ("frames_per_second", "actor_cpu_secs_per_1000", "actor_latency_ms")
    )
    assert (ours["actor_cores"], ours["learner_cores"] >= 1) == (2, True)
    assert ours["bytes_sent_per_frame"] > 84 * 84 / 4 and ours["bytes_received_per_frame"] > 0
    assert path.with_suffix(".png").stat().st_size > 10_000
    costs = result("cost", f"--measured={path}", "--core_price=0.36")["costs"]
    dollars = {"actors": 2000.0, "learner": 1000.0, "dollars": 3000.0, "dollars_used": 300.0}
    assert costs["envs_1/grpc"] == pytest.approx(dollars | {"balanced": 2.0})
