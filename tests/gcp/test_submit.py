"""Jobs that arrive at Vertex AI, and messages when it refuses them."""

import datetime
import json
import re
import subprocess
import sys
from pathlib import Path

import google.auth
import grpc
import pytest
from google.cloud.aiplatform_v1 import types

from gcp import submit
from seed_rl.commands import vertex
from seed_rl.flags.errors import UsageError

ROOT = Path(__file__).resolve().parents[2]
PARENT = "projects/my-project/locations/europe-west4"
CATCH = {"environment": "catch", "agent": "vtrace"}
ACTORS = {"machine": "n1-standard-16", "replicas": 3, "processes": 5, "environments": 2}
ACTOR_IMAGE = "docker.io/p/actor@sha256:12ab"
FULL = {
    "region": "europe-west4",
    "bucket": "gs://my-runs/first/",
    "repository": "europe-docker.pkg.dev/p/r",
    "service_account": "trainer@my-project.iam.gserviceaccount.com",
    "labels": {"suite": "catch", "try": "1"},
    "spot": True,
    "restart": "job",
    "timeout_hours": 1.5,
    "flags": {**CATCH, "total_environment_frames": 1e6, "use_last_action_and_reward": False},
    "learner": {"machine": "a2-highgpu-2g", "accelerator": "NVIDIA_TESLA_A100", "accelerators": 2},
    "actors": {**ACTORS, "image": ACTOR_IMAGE},
}
SPACE = """
environment: catch
agent: vtrace
flags: {unroll_length: 10}
space:
  learning_rate: {log_uniform: [1e-4, 1e-2]}
  entropy_cost: {uniform: [0.0, 0.5]}
  batch_size: {int_uniform: [2, 8]}
  discounting: {choice: [0.99, 0.997]}
  use_last_action_and_reward: {choice: [true, false]}
"""
SEARCH = {"flags": None, "sweep": {"space": "space.yaml", "trials": 24, "parallel": 4}}


def sent(cloud, number=-1):
    """The specification of a job that arrived, and the arguments of its containers."""
    spec = cloud.created[number][1].job_spec
    (arguments,) = {tuple(pool.container_spec.args) for pool in spec.worker_pool_specs}
    return spec, arguments


def test_a_custom_job_arrives_as_its_file_says(send, cloud, capsys):
    assert send(**FULL) == 0
    ((parent, job),) = cloud.created
    assert (parent, type(job), job.display_name) == (PARENT, types.CustomJob, "catch")
    spec, arguments = sent(cloud)
    assert dict(job.labels) == FULL["labels"] and spec.service_account == FULL["service_account"]
    assert spec.base_output_directory.output_uri_prefix == "gs://my-runs/first/catch"
    assert spec.scheduling.timeout == datetime.timedelta(hours=1.5)
    assert spec.scheduling.strategy == types.Scheduling.Strategy.SPOT
    assert spec.scheduling.restart_job_on_worker_restart and not spec.scheduling.disable_retries
    learner, actors = spec.worker_pool_specs
    assert (learner.replica_count, actors.replica_count) == (1, 3)
    gpus = {"accelerator_type": types.AcceleratorType.NVIDIA_TESLA_A100, "accelerator_count": 2}
    assert learner.machine_spec == types.MachineSpec(machine_type="a2-highgpu-2g", **gpus)
    assert actors.machine_spec == types.MachineSpec(machine_type="n1-standard-16")
    assert learner.container_spec.image_uri == "europe-docker.pkg.dev/p/r/learner:latest"
    assert actors.container_spec.image_uri == ACTOR_IMAGE
    assert list(learner.container_spec.command) == ["python", "-m", "seed_rl", "vertex"]
    assert set(arguments) == {
        *("--environment=catch", "--agent=vtrace", "--total_environment_frames=1000000"),
        *("--actors_per_replica=5", "--env_batch_size=2", "--num_envs=30", "--learner_replicas=1"),
        *("--logdir=gs://my-runs/first/catch", "--require_accelerator=true"),
        "--use_last_action_and_reward=false",
    }
    assert f"submitted catch as {PARENT}/jobs/1" in capsys.readouterr().err


def test_what_is_left_out_has_its_default(send, cloud):
    send()
    spec, _ = sent(cloud)
    assert cloud.created[0][0] == "projects/my-project/locations/us-central1"
    assert spec.scheduling.strategy == types.Scheduling.Strategy.STANDARD
    assert not spec.scheduling.restart_job_on_worker_restart and not spec.scheduling.disable_retries
    assert spec.base_output_directory.output_uri_prefix == "gs://my-project-seed-rl/catch"
    images = [pool.container_spec.image_uri for pool in spec.worker_pool_specs]
    registry = "us-central1-docker.pkg.dev/my-project/seed-rl"
    assert images == [f"{registry}/{name}:latest" for name in ("learner", "actor")]
    assert spec.worker_pool_specs[0].machine_spec.accelerator_count == 0
    send(restart="never", display_name="other")
    spec, arguments = sent(cloud)
    assert spec.scheduling.disable_retries and "--learner_restarts=0" in arguments


def test_several_learners_are_pools_0_and_1_and_the_actors_pool_2(send, cloud, capsys):
    flags = {**FULL["flags"], "batch_size": 6, "insecure_reductions": True}
    learner, actors = {**FULL["learner"], "replicas": 3}, {**FULL["actors"], "replicas": 6}
    assert send(**{**FULL, "learner": learner, "actors": actors, "flags": flags}) == 0
    spec, arguments = sent(cloud)
    first, others, actors = spec.worker_pool_specs
    assert [pool.replica_count for pool in (first, others, actors)] == [1, 2, 6]
    assert first.machine_spec == others.machine_spec != actors.machine_spec
    assert first.container_spec == others.container_spec
    assert "--learner_replicas=3" in arguments
    assert "3 x a2-highgpu-2g with 2 NVIDIA_TESLA_A100 for learning" in capsys.readouterr().err
    send("--learner_replicas=2", display_name="other", flags=flags)
    assert [pool.replica_count for pool in sent(cloud)[0].worker_pool_specs] == [1, 1, 2]


def test_learner_and_actors_share_secrets_that_are_shown_nowhere(send, cloud, capsys):
    send("--yes", each={"seed": [1, 2]})
    learners = []
    for number in (0, 1):
        spec, arguments = sent(cloud, number)
        learner, actor = (
            {entry.name: entry.value for entry in pool.container_spec.env} for pool in spec.worker_pool_specs
        )
        assert set(learner) == {"SEED_RL_TOKEN", "SEED_RL_TLS_CERTIFICATE", "SEED_RL_TLS_KEY"}
        assert set(actor) == {"SEED_RL_TOKEN", "SEED_RL_TLS_AUTHORITY"}
        assert learner["SEED_RL_TOKEN"] == actor["SEED_RL_TOKEN"]
        assert learner["SEED_RL_TLS_CERTIFICATE"] == actor["SEED_RL_TLS_AUTHORITY"]
        assert not any(value in " ".join(arguments) for value in learner.values())
        learners.append(set(learner.values()))
    assert not learners[0] & learners[1]
    send("--dry_run", display_name="shown")
    output = "".join(capsys.readouterr())
    assert "created for each job" in output
    assert not re.search(r"[0-9a-f]{32}|BEGIN", output)


def test_a_hyperparameter_tuning_job_searches_the_space(send, cloud, tmp_path):
    (tmp_path / "space.yaml").write_text(SPACE)
    send("--yes", **SEARCH)
    ((_, job),) = cloud.created
    assert type(job) is types.HyperparameterTuningJob
    assert (job.display_name, job.max_trial_count, job.parallel_trial_count) == ("catch", 24, 4)
    study, spec = job.study_spec, types.StudySpec
    assert study.algorithm == spec.Algorithm.RANDOM_SEARCH
    (metric,) = study.metrics
    assert (metric.metric_id, metric.goal) == ("final_return", spec.MetricSpec.GoalType.MAXIMIZE)
    found = {parameter.parameter_id: parameter for parameter in study.parameters}
    scales = spec.ParameterSpec.ScaleType
    rate, cost, batch = (found.pop(name) for name in ("learning_rate", "entropy_cost", "batch_size"))
    assert (rate.double_value_spec.min_value, rate.double_value_spec.max_value) == (1e-4, 1e-2)
    assert (cost.double_value_spec.min_value, cost.double_value_spec.max_value) == (0.0, 0.5)
    assert (batch.integer_value_spec.min_value, batch.integer_value_spec.max_value) == (2, 8)
    assert rate.scale_type == scales.UNIT_LOG_SCALE
    assert cost.scale_type == batch.scale_type == scales.UNIT_LINEAR_SCALE
    assert {name: list(parameter.categorical_value_spec.values) for name, parameter in found.items()} == {
        "discounting": ["0.99", "0.997"],
        "use_last_action_and_reward": ["true", "false"],
    }
    args = job.trial_job_spec.worker_pool_specs[1].container_spec.args
    assert {"--environment=catch", "--unroll_length=10", "--num_envs=16"} <= set(args)
    drawn = ["--learning_rate=0.001", "--batch_size=4", "--use_last_action_and_reward=false"]
    vertex.parse_job(["vertex", *args, *drawn])


def test_each_value_gets_a_job_of_its_own_and_more_than_one_run_needs_a_yes(
    send, refusal, cloud, tmp_path, capsys
):
    assert "2 runs; add --yes" in refusal(each={"seed": [1, 2]})
    (tmp_path / "space.yaml").write_text(SPACE)
    assert "24 runs; add --yes" in refusal(**SEARCH)
    assert cloud.created == []
    send("--yes", flags={"environment": "atari", "agent": "vtrace"}, each={"game": ["Pong", "Seaquest"]})
    for number, game in enumerate(("Pong", "Seaquest")):
        assert cloud.created[number][1].display_name == f"catch_{game}"
        expected = {f"--game={game}", f"--logdir=gs://my-project-seed-rl/catch_{game}"}
        assert expected <= set(sent(cloud, number)[1])
    assert "Runs: 2, " in capsys.readouterr().err


def test_a_dry_run_prints_the_request_that_would_be_sent_and_sends_nothing(job_file, capsys):
    def connect(region):
        raise AssertionError("A dry run connects to nothing.")

    submit.main(["gcp.submit", f"--config={job_file(**FULL)}", "--dry_run"], connect)
    shown = json.loads(capsys.readouterr().out)
    assert [set(entry) for entry in shown] == [{"parent", "customJob"}]
    job = types.CustomJob.from_json(json.dumps(shown[0]["customJob"]))
    assert job.job_spec.worker_pool_specs[1].replica_count == 3
    assert shown[0]["customJob"]["jobSpec"]["scheduling"]["strategy"] == "SPOT"


def test_a_job_that_has_not_ended_is_not_submitted_again(send, refusal, cloud, capsys):
    cloud.jobs = [("catch_1", "JOB_STATE_RUNNING"), ("else", "JOB_STATE_RUNNING")]
    send("--yes", each={"seed": [1, 2]})
    assert [job.display_name for _, job in cloud.created] == ["catch_2"]
    assert "catch_1 has not ended" in capsys.readouterr().err
    assert len(cloud.filters) == 2 and all('state="JOB_STATE_RUNNING"' in text for text in cloud.filters)
    cloud.jobs = [("catch", "JOB_STATE_QUEUED")]
    assert "nothing to submit" in refusal()
    assert len(cloud.created) == 1
    # A service that fails midway leaves the rest to the same command.
    cloud.jobs, cloud.refusals = [], [None, (grpc.StatusCode.RESOURCE_EXHAUSTED, "quota")]
    text = refusal("--yes", each={"seed": [1, 2, 3]})
    assert "quota" in text and "submitted catch_1 as" in capsys.readouterr().err
    assert len(cloud.created) == 2


@pytest.mark.parametrize(
    ("code", "answer", "sentence"),
    [
        ("UNAUTHENTICATED", "no token", "no credentials"),
        ("PERMISSION_DENIED", "denied on x", "in project my-project and region us-central1"),
        ("NOT_FOUND", "image x not found", "did not take the job"),
        ("INVALID_ARGUMENT", 'Machine type "n1-standard-8" is odd.', "change what it names"),
        ("RESOURCE_EXHAUSTED", "The metrics exceed quota limits: a.com/training_cpus", "training_cpus"),
        ("UNAVAILABLE", "no address", "check the network"),
        ("UNAVAILABLE", "Getting metadata from plugin failed", "no credentials"),
        ("INTERNAL", "oh", "try again"),
    ],
)
def test_an_error_of_the_service_is_one_sentence(refusal, cloud, code, answer, sentence):
    cloud.refusals = [(grpc.StatusCode[code], f"{answer}\nmore")]
    text = refusal()
    assert sentence in text and answer.rstrip(".") in text
    assert cloud.created == []
    learner = {"machine": "n1-standard-8", "accelerator": "NVIDIA_TESLA_A10"}
    assert "NVIDIA_TESLA_A10" in refusal("--dry_run", learner=learner)  # Not sent: the client refuses it.


def test_the_real_client_needs_credentials_and_has_the_regions_endpoint(monkeypatch, tmp_path, job_file):
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))
    with pytest.raises(UsageError, match=r"no credentials.*gcloud auth application-default login"):
        submit.main(["gcp.submit", f"--config={job_file()}"])
    credentials = google.auth.credentials.AnonymousCredentials()
    monkeypatch.setattr(google.auth, "default", lambda **_: (credentials, "my-project"))
    host = submit._connect("europe-west4").transport.host
    assert host == "europe-west4-aiplatform.googleapis.com:443"


def test_without_googles_client_the_command_says_what_to_install(job_file):
    code = "import sys; sys.modules['google.cloud.aiplatform_v1'] = None\n" + (
        "from gcp.submit import main; from seed_rl.flags.errors import run_main; run_main(main)"
    )
    command = [sys.executable, "-c", code, f"--config={job_file()}", "--dry_run"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert "install Google's client with pip install -e '.[gcp]'" in done.stderr.splitlines()[-1]
