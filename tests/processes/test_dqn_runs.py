"""DQN in real processes: replay of transitions, an epsilon that falls, resume, export and evaluation."""

import json
import signal

import numpy as np
import pytest
import tensorflow as tf

pytestmark = pytest.mark.slow

SETTINGS = (
    "--distribution=quantile",
    "--num_quantiles=8",
    "--num_target_quantiles=8",
    "--num_eval_envs=2",
    "--batch_size=8",
    # More than is played. In a full replay, the first steps after resuming take the place of old ones.
    "--replay_buffer_size=20000",
    "--replay_buffer_min_size=100",
    "--replay_ratio=2",
    "--priority_exponent=0.5",
    "--epsilon_fraction=1",
    "--checkpoint_replay",
    "--intra_op_threads=1",
    "--log_period_secs=0.25",
)


def test_trains_stops_goes_on_and_is_evaluated(house):
    def run(frames):
        args = ("catch", "dqn", "2", "4", *SETTINGS, f"--logdir={house.logdir}")
        return house.start("train", *args, f"--total_environment_frames={frames}")

    first = run(100_000)
    house.wait_for_metrics(
        lambda line: line["replay_size"] > 1000 and line["updates"] and "mean_evaluation_return" in line,
        first,
    )
    first.signal(signal.SIGINT)
    assert first.end() == 130, first.output
    stopped = house.metrics()[-1]
    assert 1.8 < stopped["replay_ratio"] <= 2
    assert 0.1 < stopped["epsilon"] < 1

    frames = stopped["env_frames"] + 3000
    second = run(frames)
    going_on = house.wait_for_metrics(lambda line: line["env_frames"] > stopped["env_frames"], second)
    assert second.end() == 0, second.output
    assert going_on["replay_size"] >= stopped["replay_size"]  # Not filled again.
    last = house.metrics()[-1]
    assert last["updates"] > stopped["updates"]
    # From 1 to the preset's 0.01 over the frames of the new run.
    np.testing.assert_allclose(last["epsilon"], 1 - 0.99 * last["env_frames"] / frames, atol=0.02)

    policy = tf.saved_model.load(str(house.logdir / "saved_model"))
    assert policy.initial_state(3) == ()
    evaluation = house.start("evaluate", f"--logdir={house.logdir}", "--episodes=4")
    assert evaluation.end() == 0, evaluation.output
    (report,) = (house.logdir / "evaluations").glob("*.json")
    assert json.loads(report.read_text())["agent"] == "dqn"
