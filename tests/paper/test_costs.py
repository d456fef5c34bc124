"""Costs by the paper's prices, measured figures, and what their file may be."""

import json

import pytest

from seed_rl.paper import costs

FIGURES = {"frames_per_second": 1000.0, "actor_cpu_secs_per_1000": 2.0, "learner_cpu_secs_per_1000": 1.0}
FIGURES |= {"actor_latency_ms": 5.0, "actor_cores": 4, "learner_cores": 2}


def written(path, results):
    path.write_text(json.dumps(results))
    return path


def test_dollars_per_billion():
    assert costs.dollars_per_billion(3.6, 1000.0) == pytest.approx(1000.0)


def test_cores_are_priced_as_they_are_allocated_and_seconds_as_they_are_used():
    found = costs.measured_costs(FIGURES, 0.36)
    assert found == pytest.approx({"actors": 400, "learner": 200, "dollars": 600, "dollars_used": 300})
    earlier = {name: value for name, value in FIGURES.items() if not name.endswith("_cores")}
    assert costs.measured_costs(earlier, 0.36) == pytest.approx({"dollars_used": 300})


def test_figures_are_medians_over_rounds(tmp_path):
    speeds = (1000.0, 4000.0, 2000.0)
    rounds = {f"dmlab/grpc/{i}": FIGURES | {"frames_per_second": speed} for i, speed in enumerate(speeds)}
    path = written(tmp_path / "impala.json", rounds | {"dmlab/actor/0": {**FIGURES, "lag": 1}})
    found = costs.read_measured(path)
    assert found == {
        ("dmlab", "grpc"): FIGURES | {"frames_per_second": 2000.0},
        ("dmlab", "actor"): FIGURES,
    }


@pytest.mark.parametrize(
    "content",
    [
        *({}, [], {"a": 1}, {"a/b/0": 3}, {"a/b/0": []}, {"a/b/0": {}}, {"a/b": FIGURES}),
        *({"a/b/0": FIGURES | {name: value}} for name in FIGURES for value in (0, -1, None, "1", True)),
        {"a/b/0": FIGURES | {"frames_per_second": float("nan")}},
    ],
)
def test_a_file_without_figures_is_refused_in_one_sentence(tmp_path, content):
    with pytest.raises(ValueError, match="no results of python -m benchmarks impala") as caught:
        costs.read_measured(written(tmp_path / "impala.json", content))
    assert str(caught.value).endswith("--output.") and "\n" not in str(caught.value)


@pytest.mark.parametrize("text", [None, b"", b"{", b"\xff", b"[" * 100])
def test_a_file_that_cannot_be_read_is_refused_in_one_sentence(tmp_path, text):
    path = tmp_path / "impala.json"
    if text is not None:
        path.write_bytes(text)
    with pytest.raises(ValueError, match="no results of python -m benchmarks impala"):
        costs.read_measured(path)
