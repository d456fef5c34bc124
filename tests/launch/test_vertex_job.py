"""A container's place in a job on Vertex AI, and the commands of its children."""

import json
import sys
from pathlib import Path

import pytest

from seed_rl.flags.errors import UsageError
from seed_rl.launch import vertex_job

# A job with two actors, in the form of the documentation.
CLUSTER = {
    "workerpool0": ["cmle-training-workerpool0-ab-0:2222"],
    "workerpool1": ["cmle-training-workerpool1-ab-0:2222", "cmle-training-workerpool1-ab-1:2222"],
}
FLAGS = ("--environment=catch", "--agent=vtrace", "--num_envs=16", "--env_batch_size=4", "--rows=7")
LOGDIR = "--logdir=gs://my-runs/a/catch/"
KEY = "-----BEGIN PRIVATE KEY-----"


def spec(pool="workerpool1", index=1, cluster=CLUSTER):
    """As the documentation says, `job` has the specification that was submitted, secrets included."""
    task = {"type": pool, "index": index, "trial": ""}
    job = {"worker_pool_specs": [{"container_spec": {"env": [{"name": "SEED_RL_TLS_KEY", "value": KEY}]}}]}
    return {
        "CLUSTER_SPEC": json.dumps({"cluster": cluster, "environment": "cloud", "task": task, "job": job})
    }


def line(*flags):
    return vertex_job.parse_job(["vertex", *FLAGS, LOGDIR, *flags])


def test_the_place_is_read_from_the_cluster():
    address = CLUSTER["workerpool0"][0]
    assert vertex_job.find_place(spec("workerpool0", 0)) == vertex_job.Place((address,), learner=0)
    assert vertex_job.find_place(spec("workerpool1", 1)) == vertex_job.Place((address,), replica=1)
    with pytest.raises(UsageError, match=r'"cluster": .*cmle-training-workerpool0.*"task": .*"workerpool7"'):
        vertex_job.find_place(spec("workerpool7", 0))


def test_several_learners_come_before_the_actors():
    pools = [["a:2222"], ["b:2222", "c:2222"], ["x:2222", "y:2222"]]
    cluster = {f"workerpool{i}": pool for i, pool in enumerate(pools)}
    learners = ("a:2222", "b:2222", "c:2222")
    places = [(0, 0, 0, None), (1, 0, 1, None), (1, 1, 2, None), (2, 0, None, 0), (2, 1, None, 1)]
    for pool, index, learner, replica in places:
        found = vertex_job.find_place(spec(f"workerpool{pool}", index, cluster), 3)
        assert found == vertex_job.Place(learners, learner, replica)
    with pytest.raises(
        UsageError, match=r"worker pool 0 and the others in worker pool 1 .*3 learners, not 2"
    ):
        vertex_job.find_place(spec("workerpool0", 0, cluster), 2)


def test_each_of_several_learners_knows_the_others_and_their_certificate():
    parsed = line("--learner_replicas=2", "--insecure_reductions", "--host_timeout_secs=60.0")
    place = vertex_job.Place(("a:2222", "b:2222"), learner=1)
    command = vertex_job.learner_command(parsed, place, Path("x"))
    several = {"--learner_hosts=a:2222,b:2222", "--learner_index=1", "--tls_server_name=learner.seed-rl"}
    assert several | {"--server_address=0.0.0.0:2222", "--logdir=x"} <= set(command)
    assert command.index("--host_timeout_secs=300") < command.index("--host_timeout_secs=60.0")
    (actor,) = vertex_job.actor_commands(parsed, vertex_job.Place(("a:2222", "b:2222"), replica=0)).values()
    assert "--server_address=a:2222" in actor


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"CLUSTER_SPEC": "{"},
        {"CLUSTER_SPEC": "[]"},
        {"CLUSTER_SPEC": "[" * 3000},
        {"CLUSTER_SPEC": spec()["CLUSTER_SPEC"].replace('"index": 1', '"index": Infinity')},
        {"CLUSTER_SPEC": spec()["CLUSTER_SPEC"][:-1]},
        spec("workerpool2", 0),
        spec("workerpool1", "first"),
        spec(cluster={"workerpool0": []}),
        spec(cluster={"workerpool0": ["learner"]}),
    ],
)
def test_a_cluster_that_is_none_is_one_sentence(environ):
    with pytest.raises(UsageError) as caught:
        vertex_job.find_place(environ)
    text = str(caught.value)
    assert text.startswith("CLUSTER_SPEC") and "\n" not in text
    assert "PRIVATE KEY" not in text and "worker_pool_specs" not in text


def test_the_learner_listens_everywhere_at_its_port_and_writes_to_the_mounted_bucket():
    parsed = line("--learning_rate=0.01")
    place = vertex_job.Place(tuple(CLUSTER["workerpool0"]), learner=0)
    command = vertex_job.learner_command(parsed, place, vertex_job.run_directory(parsed, None))
    assert command[:4] == [sys.executable, "-m", "seed_rl", "learner"]
    kept = [flag for flag in FLAGS if flag != "--env_batch_size=4"]
    own = ["--server_address=0.0.0.0:2222", "--logdir=/gcs/my-runs/a/catch", "--learning_rate=0.01"]
    assert sorted(command[4:]) == sorted([*kept, *own])


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_a_learner_on_this_machine_stays_on_it(host):
    command = vertex_job.learner_command(line(), vertex_job.Place((f"{host}:7",), learner=0), Path("x"))
    assert f"--server_address={host}:7" in command


def test_the_actors_of_a_replica_ask_the_learner_for_their_tasks():
    place = vertex_job.Place(("learner:2222",), replica=2)
    commands = vertex_job.actor_commands(line("--actors_per_replica=3"), place)
    assert list(commands) == [6, 7, 8]
    assert commands[7] == [
        *(sys.executable, "-m", "seed_rl", "actor", "--server_address=learner:2222"),
        *("--tls_server_name=learner.seed-rl", "--env_batch_size=4"),
    ]


def test_every_value_in_a_bucket_is_mounted():
    parsed = line("--init_checkpoint=gs://b/run", "--gcs_mount=/mnt")
    command = vertex_job.learner_command(
        parsed, vertex_job.Place(("h:1",), learner=0), vertex_job.run_directory(parsed, "7")
    )
    assert {"--init_checkpoint=/mnt/b/run", "--logdir=/mnt/my-runs/a/catch/trial_7"} <= set(command)
    level_cache = vertex_job.parse_job(
        ["vertex", "--environment=dmlab", "--agent=vtrace", "--level_cache=gs://b/levels"]
    )
    command = vertex_job.learner_command(level_cache, vertex_job.Place(("h:1",), learner=0), Path("x"))
    assert "--level_cache=/gcs/b/levels" in command


def test_arguments_of_a_job_are_parsed_to_the_same_again(tmp_path):
    (tmp_path / "f.flags").write_text("--environment=catch\n--agent=vtrace\n--num_actors=3\n--lstm_size=0\n")
    parsed = vertex_job.parse_job(["vertex", f"--flagfile={tmp_path / 'f.flags'}", "--num_envs=8"])
    arguments = vertex_job.job_arguments(parsed)
    assert set(arguments) == {"--environment=catch", "--agent=vtrace", "--lstm_size=0", "--num_envs=8"}
    assert vertex_job.job_arguments(vertex_job.parse_job(["vertex", *arguments])) == arguments


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("--task=1", "Unknown flag --task"),
        ("--server_address=x:1", "Unknown flag --server_address"),
        ("--num_envs=0", "--num_envs=0 is too low"),
        ("--learner_replicas=2", "--insecure_reductions"),
        ("--num_gateways=1", r"--num_gateways needs several .* leave it out"),
    ],
)
def test_flags_that_are_not_for_a_job_are_refused(flag, words):
    with pytest.raises(UsageError, match=words):
        line(flag)
