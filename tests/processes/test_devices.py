"""Real learners resume on other devices, compiled, and in another precision."""

import numpy as np
import pytest

from seed_rl.devices import placement
from seed_rl.paper import tables

TWO = "(each on 2 of a batch of 4)"
# Flags, and the first line; each run resumes the one before.
SESSIONS = [
    (
        ["--num_logical_devices=4", "--inference_devices=0,1"],
        f"Training on CPU:2, CPU:3 {TWO}; inference on CPU:0, CPU:1.",
    ),
    (["--jit", "--precision=auto", "--inference_batch_size=6"], "Training and inference on CPU:0."),
    (
        ["--precision=float32", "--num_logical_devices=3"],
        f"Training on CPU:1, CPU:2 {TWO}; inference on CPU:0.",
    ),
    (
        ["--jit", "--num_logical_devices=3", "--training_devices=2"],
        "Training on CPU:2; inference on CPU:0, CPU:1.",
    ),
]


@pytest.mark.slow
def test_a_run_resumes_on_other_devices_compiled_and_in_another_precision(house):
    for run, (flags, first_line) in enumerate(SESSIONS):
        frames = 4_000 * (run + 1)
        learner = house.learner(*flags, f"--total_environment_frames={frames}")
        actor = house.only_actor()
        assert learner.end() == 0, learner.output
        assert actor.end() == 0
        assert first_line in learner.output.splitlines()
        assert ("Resuming from" in learner.output) == (run > 0)
        assert house.metrics()[-1]["env_frames"] >= frames
        updated = [line for line in house.metrics() if "policy_lag_first_updates" in line]
        assert np.isfinite(updated[-1]["loss"])
        assert updated[-1]["policy_lag_first_updates"] < 20
        evaluation = house.start("evaluate", f"--logdir={house.logdir}", "--episodes=2")
        assert evaluation.end() == 0, evaluation.output


ROWS = {row.preset: row for row in tables.read("seed/table_1") if row.preset}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_a_row_of_seed_rls_table_1_has_a_split_that_divides_its_batch(monkeypatch, row):
    names = {f"GPU:{number}" for number in range(row.accelerators)}
    monkeypatch.setattr(placement, "available", lambda: sorted(names))
    found = placement.place("", "", row.batch_size, infers=row.architecture != "IMPALA")
    assert {*found.training, *found.inference} == names
    assert row.batch_size % len(found.training) == 0
    assert len(found.training) == (row.training_accelerators or len(found.training))
    assert found.is_shared == (row.accelerators == 1)
