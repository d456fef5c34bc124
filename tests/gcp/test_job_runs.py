"""Jobs that arrived at the fake cloud, run as Vertex AI would run them: the real learner and real actors."""

import json
import signal

import psutil
import pytest

from seed_rl.metrics import curves
from seed_rl.runs import record
from tests.environments import slow
from tests.gcp.vertex_double import PRIMARY
from tests.waiting import wait_until

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


def test_a_job_trains_catch_with_the_flags_that_were_submitted(send, cloud, run_job):
    send(flags=SMALL)
    ((_, job),) = cloud.created
    run = run_job(job.job_spec)
    ended = run.end()
    assert ended[:3] == ("JOB_STATE_SUCCEEDED", "", 1), ended
    # The last code: an actor was still starting.
    assert run.codes[0][PRIMARY] == 0 and set(run.codes[0].values()) <= {0, 143, -signal.SIGTERM}
    assert run.names == [PRIMARY, "workerpool1-0", "workerpool1-1"]
    logdir = run.buckets / "my-project-seed-rl" / "catch"
    settings = record.read(str(logdir)).learner_settings
    assert (settings["num_envs"], settings["total_environment_frames"]) == (16, 6000)
    assert record.read(str(logdir)).agent_settings["unroll_length"] == 10
    assert curves.read_periods(logdir)[-1]["env_frames"] >= 6000
    assert list((logdir / "checkpoints").glob("ckpt-*.index"))
    assert (logdir / "saved_model" / "saved_model.pb").exists()
    secrets = [entry.value for entry in job.job_spec.worker_pool_specs[0].container_spec.env]
    assert len(secrets) == 3
    assert not any(secret in output for output in ended.outputs.values() for secret in secrets)


def test_a_trial_trains_in_a_directory_of_its_own_and_reports_its_return(send, cloud, run_job, tmp_path):
    (tmp_path / "space.yaml").write_text(SPACE)
    flags = {key: value for key, value in SMALL.items() if key not in ("environment", "agent")}
    sweep = {"space": "space.yaml", "trials": 2}
    actors = {"machine": "n1-standard-4", "replicas": 1, "environments": 8}
    send("--yes", flags=flags, sweep=sweep, actors=actors)
    ((_, job),) = cloud.created
    drawn = ("--learning_rate=0.00271", "--use_last_action_and_reward=false")
    metrics = tmp_path / "hypertune" / "output.metrics"
    run = run_job(job.trial_job_spec, *drawn, CLOUD_ML_TRIAL_ID="3", CLOUD_ML_HP_METRIC_FILE=str(metrics))
    ended = run.end()
    assert ended.state == "JOB_STATE_SUCCEEDED", ended
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


def frames(logdir):
    """Environment frames so far; 0 before the first figures."""
    path = logdir / "metrics.jsonl"
    return curves.read_periods(logdir)[-1]["env_frames"] if path.exists() and path.read_text() else 0


def test_a_preempted_trial_resumes_and_reports_only_what_is_complete(send, cloud, run_job, tmp_path):
    (tmp_path / "space.yaml").write_text(SPACE)
    total = 40_000
    flags = {key: value for key, value in SMALL.items() if key not in ("environment", "agent")}
    send(
        flags={**flags, "total_environment_frames": total},
        sweep={"space": "space.yaml", "trials": 1},
        actors={"machine": "n1-standard-4", "replicas": 1, "environments": 8},
        spot=True,
    )
    ((_, job),) = cloud.created
    metrics = tmp_path / "output.metrics"
    run = run_job(job.trial_job_spec, CLOUD_ML_TRIAL_ID="1", CLOUD_ML_HP_METRIC_FILE=str(metrics))
    logdir = run.buckets / "my-project-seed-rl" / "catch" / "trial_1"
    wait_until(lambda: run.look() or frames(logdir), lambda: f"figures; {run.output(PRIMARY)}")

    # The learner crashes, and is started again in its container.
    _, learner = psutil.Process(run.pid()).children(recursive=True)  # The first one is its reaper.
    learner.send_signal(signal.SIGKILL)
    again = "restart 1 of 5"
    wait_until(lambda: run.look() or again in run.output(PRIMARY), lambda: run.output(PRIMARY))
    assert again in run.output(PRIMARY)
    before = (logdir / "metrics.jsonl").stat().st_size
    wait_until(
        lambda: run.look() or (logdir / "metrics.jsonl").stat().st_size > before,
        lambda: f"more figures; {run.output(PRIMARY)}",
    )
    assert run.attempts == 1

    # Its machine is taken back.
    run.preempt()
    assert run.look() is None, "a job whose learner was stopped must not count as a success"
    assert run.codes[0][PRIMARY] == 143, run.output(PRIMARY)
    assert not metrics.exists()
    assert list((logdir / "checkpoints").glob("ckpt-*.index"))
    ended = run.end()
    assert (ended.state, ended.attempts) == ("JOB_STATE_SUCCEEDED", 2), ended
    assert "Stopped with a checkpoint" in ended.outputs[PRIMARY]
    assert "Resuming from" in ended.outputs[PRIMARY]
    assert frames(logdir) >= total
    assert int(json.loads(metrics.read_text())["global_step"]) >= total


def test_two_learners_start_again_in_their_containers_when_one_is_lost(send, cloud, run_job, tmp_path):
    total = 6_000
    learner = {"machine": "n1-standard-8", "replicas": 2}
    flags = {**SMALL, "environment": "gym", "game": slow.GAME, "total_environment_frames": total}
    flags |= {"insecure_reductions": True, "host_timeout_secs": 30, "save_checkpoint_secs": 0.5}
    send(flags=flags, learner=learner)
    ((_, job),) = cloud.created
    run = run_job(job.job_spec, **{slow.UNTIL: str(tmp_path / "go")})
    other = "workerpool1-0"
    logdir = run.buckets / "my-project-seed-rl" / "catch"
    index = logdir / "checkpoints"
    wait_until(lambda: run.look() or list(index.glob("ckpt-*.index")), lambda: run.output(PRIMARY))
    _, process = psutil.Process(run.pid(other)).children(recursive=True)
    process.send_signal(signal.SIGKILL)
    (tmp_path / "go").touch()
    ended = run.end()
    assert (ended.state, ended.attempts) == ("JOB_STATE_SUCCEEDED", 1), ended
    assert "the learner was ended by SIGKILL; restart 1 of 5" in ended.outputs[other]
    assert "is lost: its connection ended." in ended.outputs[PRIMARY]
    assert "the learner ended with exit code 1; restart 1 of 5" in ended.outputs[PRIMARY]
    assert "Resuming from" in ended.outputs[PRIMARY]
    assert frames(logdir) >= total
