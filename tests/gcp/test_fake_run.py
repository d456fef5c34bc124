"""Jobs that arrived at the fake cloud, run as Vertex AI would run them: the real learner and real actors."""

import json

import pytest

from seed_rl.runs import curves, record

pytestmark = pytest.mark.slow

SMALL = {
    "environment": "catch",
    "agent": "vtrace",
    "lstm_size": 0,
    "unroll_length": 10,
    "batch_size": 4,
    "intra_op_threads": 1,
    "log_period_secs": 0.25,
    "total_environment_frames": 6000,
}
SPACE = """
environment: catch
agent: vtrace
space:
  learning_rate: {log_uniform: [1e-4, 1e-2]}
  use_last_action_and_reward: {choice: [true, false]}
"""


@pytest.mark.timeout(280)
def test_a_job_trains_catch_with_the_flags_that_were_submitted(send, cloud, fake_run):
    send(flags=SMALL)
    ((_, job),) = cloud.created
    run = fake_run(job.job_spec)
    ended = run.end()
    assert {name: code for name, (code, _) in ended.items()} == {
        "workerpool0_0": 0,
        "workerpool1_0": 0,
        "workerpool1_1": 0,
    }, ended
    logdir = run.buckets / "my-project-seed-rl" / "catch"
    settings = record.read(str(logdir)).learner_settings
    assert (settings["num_envs"], settings["total_environment_frames"]) == (16, 6000)
    assert record.read(str(logdir)).agent_settings["unroll_length"] == 10
    assert curves.read_periods(logdir)[-1]["env_frames"] >= 6000
    assert list((logdir / "checkpoints").glob("ckpt-*.index"))
    assert (logdir / "saved_model" / "saved_model.pb").exists()
    token = job.job_spec.worker_pool_specs[0].container_spec.env[0].value
    assert not any(token in output for _, output in ended.values())


@pytest.mark.timeout(280)
def test_a_trial_trains_in_a_directory_of_its_own_and_reports_its_return(send, cloud, fake_run, tmp_path):
    (tmp_path / "space.yaml").write_text(SPACE)
    flags = {key: value for key, value in SMALL.items() if key not in ("environment", "agent")}
    sweep = {"space": "space.yaml", "trials": 2}
    actors = {"machine": "n1-standard-4", "replicas": 1, "environments": 8}
    send("--yes", flags=flags, sweep=sweep, actors=actors)
    ((_, job),) = cloud.created
    drawn = ("--learning_rate=0.00271", "--use_last_action_and_reward=false")
    metrics = tmp_path / "hypertune" / "output.metrics"
    run = fake_run(job.trial_job_spec, *drawn, CLOUD_ML_TRIAL_ID="3", CLOUD_ML_HP_METRIC_FILE=str(metrics))
    ended = run.end()
    assert [code for code, _ in ended.values()] == [0, 0], ended
    logdir = run.buckets / "my-project-seed-rl" / "catch" / "trial_3"
    settings = record.read(str(logdir))
    assert settings.learner_settings["learning_rate"] == 0.00271
    assert settings.agent_settings["use_last_action_and_reward"] is False
    reported = json.loads(metrics.read_text())
    periods = curves.read_periods(logdir)
    assert float(reported["final_return"]) == curves.final_value(curves.curve(periods, "mean_return"))
    assert (reported["trial"], reported["global_step"]) == ("3", str(periods[-1]["env_frames"]))
    (metric,) = job.study_spec.metrics
    assert metric.metric_id in reported
