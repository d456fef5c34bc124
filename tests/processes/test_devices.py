"""Real learners resume on other devices, compiled, and in another precision."""

import numpy as np
import pytest

pytestmark = pytest.mark.slow


def test_a_run_resumes_on_another_number_of_devices(house):
    """Catch on two training and two inference devices; then on one; then on two and one."""
    devices = [
        ["--num_logical_devices=4", "--inference_devices=0,1"],
        [],
        ["--num_logical_devices=3"],
    ]
    first_lines = [
        "Training on CPU:2, CPU:3 (each on 2 of a batch of 4); inference on CPU:0, CPU:1.",
        "Training and inference on CPU:0.",
        "Training on CPU:1, CPU:2 (each on 2 of a batch of 4); inference on CPU:0.",
    ]
    for run, (flags, first_line) in enumerate(zip(devices, first_lines, strict=True)):
        frames = 6_000 * (run + 1)
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


def test_a_run_resumes_compiled_and_in_another_precision(house):
    runs = [
        ["--jit", "--num_logical_devices=3", "--training_devices=2"],
        ["--jit", "--precision=bfloat16", "--inference_batch_size=6"],
        ["--precision=float32"],
    ]
    for run, flags in enumerate(runs):
        frames = 3_000 * (run + 1)
        learner = house.learner(*flags, f"--total_environment_frames={frames}")
        actor = house.only_actor()
        assert learner.end() == 0, learner.output
        assert actor.end() == 0
        assert ("Resuming from" in learner.output) == (run > 0)
        assert np.isfinite(house.metrics()[-1]["loss"])
        evaluation = house.start("evaluate", f"--logdir={house.logdir}", "--episodes=2")
        assert evaluation.end() == 0, evaluation.output
