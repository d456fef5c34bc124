"""A container's place in a job on Vertex AI, the commands of its children, their restarts, and its trial."""

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from seed_rl.commands import vertex
from seed_rl.flags.errors import UsageError
from seed_rl.flags.settings import Settings
from seed_rl.launch.child import Child
from seed_rl.launch.watch import Timing
from tests.launch.children import command

FILE = Path("job/settings.json")
TIMING = Timing(poll=0.01, checkpoint_grace=20.0, first_backoff=0.01, longest_backoff=0.01, same_signal=0.0)

AT_SIGTERM = """
def at_sigterm(code):
    def stop(*_):
        (here / "checkpoint").touch()
        raise SystemExit(code)
    signal.signal(signal.SIGTERM, stop)
"""

# As a learner and an actor report that training is complete; their exit code 0 does not count without it.
COMPLETE = "from seed_rl.messages import COMPLETE, report_to_launcher\nreport_to_launcher(COMPLETE)\n"


def run(children, most_restarts=None, **options):
    return vertex.run_children(children, most_restarts, timing=TIMING, **options)


def learner(tmp_path, code, name="the learner"):
    return Child(name, command(tmp_path, "child", AT_SIGTERM + code), tmp_path / "log")


def starts(tmp_path):
    return len(list(tmp_path.glob("*.start.*")))


ONCE = "exit(0 if starts > 1 else {})"
ITSELF = "os.kill(os.getpid(), {}); for_ever()"


@pytest.mark.parametrize(
    ("code", "most_restarts", "may_be_stopped", "expected", "restarts"),
    [
        (ONCE.format(3), None, False, 0, 1),  # An actor.
        (ONCE.format(3), 5, False, 0, 1),
        ("exit(3)", 2, False, 3, 2),
        (ITSELF.format(6), 2, False, 134, 2),
        (ITSELF.format(15), 5, False, 143, 0),
        ("at_sigterm(143); " + ITSELF.format(15), 5, False, 143, 0),
        (ONCE.format(143), 5, True, 0, 1),  # Of several learners, another one was stopped.
        *(("exit(2)", most_restarts, False, 2, 0) for most_restarts in (None, 5)),
        ("exit(3)", 0, False, 3, 0),
    ],
)
def test_a_child_that_crashes_is_started_again_so_many_times_and_ends_all_if_it_failed_for_good(
    tmp_path, capsys, code, most_restarts, may_be_stopped, expected, restarts
):
    other = tmp_path / "other"
    other.mkdir()
    children = [learner(tmp_path, code), learner(other, "for_ever()" if expected else "")]
    assert run(children, most_restarts, may_be_stopped=may_be_stopped) == expected
    assert starts(tmp_path) == 1 + restarts and not children[1].running
    said = capsys.readouterr().err
    limit = f" of {most_restarts}" if most_restarts else ""
    assert all(f"; restart {number}{limit}." in said for number in range(1, restarts + 1))
    assert not expected or said.splitlines()[-1].endswith("it is not started again.")


@pytest.mark.parametrize(
    ("signum", "code", "expected"),
    [(signal.SIGINT, 143, 130), (signal.SIGTERM, 143, 143), (signal.SIGTERM, 1, 143), (signal.SIGTERM, 0, 0)],
)
def test_a_signal_leaves_a_checkpoint_and_its_own_exit_code_unless_training_is_complete(
    tmp_path, signum, code, expected
):
    stopped = f"at_sigterm({code}); os.kill({os.getpid()}, {int(signum)}); for_ever()"
    assert run([learner(tmp_path, stopped)], 5) == expected
    assert (tmp_path / "checkpoint").exists() and starts(tmp_path) == 1


def test_a_signal_to_the_actors_container_gives_its_exit_code(tmp_path):
    actors = [learner(tmp_path, "at_sigterm(143); for_ever()"), learner(tmp_path, "exit(0)")]
    sender = learner(tmp_path, f"at_sigterm(143); os.kill({os.getpid()}, 15); for_ever()")
    assert run([*actors, sender]) == 143


# A job with two actors, in the form of the documentation.
CLUSTER = {
    "workerpool0": ["cmle-training-workerpool0-ab-0:2222"],
    "workerpool1": ["cmle-training-workerpool1-ab-0:2222", "cmle-training-workerpool1-ab-1:2222"],
}
FLAGS = ("--environment=catch", "--agent=vtrace", "--num_envs=16", "--env_batch_size=4", "--rows=7")
LOGDIR = "--logdir=gs://my-runs/a/catch/"
KEY = "-----BEGIN PRIVATE KEY-----"
SERVER_NAME = "--tls_server_name=learner.seed-rl"


def spec(pool="workerpool1", index=1, cluster=CLUSTER):
    """As documented, `job` has the specification that was submitted, secrets included."""
    task = {"type": pool, "index": index, "trial": ""}
    job = {"worker_pool_specs": [{"container_spec": {"env": [{"name": "SEED_RL_TLS_KEY", "value": KEY}]}}]}
    content = {"cluster": cluster, "environment": "cloud", "task": task, "job": job}
    return {"CLUSTER_SPEC": json.dumps(content)}


def line(*flags):
    return vertex.parse_job(["vertex", *FLAGS, LOGDIR, *flags])


POOLS = {"workerpool0": ["a:2222"], "workerpool1": ["b:2222", "c:2222"], "workerpool2": ["x:2222", "y:2222"]}


def test_the_place_is_read_from_the_cluster_with_learners_before_actors():
    address = CLUSTER["workerpool0"][0]
    assert vertex.find_place(spec("workerpool0", 0)) == ([address], 0)
    assert vertex.find_place(spec("workerpool1", 1)) == ([address], None)
    for pool, index, learner in [(0, 0, 0), (1, 0, 1), (1, 1, 2), (2, 0, None), (2, 1, None)]:
        found = vertex.find_place(spec(f"workerpool{pool}", index, POOLS), 3)
        assert found == (["a:2222", "b:2222", "c:2222"], learner)
    with pytest.raises(UsageError, match="describes no job of 2 learners"):
        vertex.find_place(spec("workerpool0", 0, POOLS), 2)
    with pytest.raises(UsageError, match=r'"cluster": .*cmle-training-workerpool0.*"task": .*"workerpool7"'):
        vertex.find_place(spec("workerpool7", 0))


@pytest.mark.parametrize(
    ("learners", "place"),
    [
        (CLUSTER["workerpool0"], ["--server_address=0.0.0.0:2222"]),  # On all addresses of its container.
        *([[f"{host}:7"], [f"--server_address={host}:7"]] for host in ("127.0.0.1", "localhost", "[::1]")),
        (
            ["b:1", "a:2222"],
            ["--server_address=0.0.0.0:1", "--learner_hosts=b:1,a:2222", "--learner_index=0", SERVER_NAME],
        ),
    ],
)
def test_a_learner_has_its_place_and_actors_ask_the_first_one_for_their_tasks(learners, place):
    command = [sys.executable, "-m", "seed_rl"]
    assert vertex.learner_command(FILE, learners, 0) == [*command, "learner", f"--settings={FILE}", *place]
    own = [f"--settings={FILE}", f"--server_address={learners[0]}", SERVER_NAME]
    assert vertex.actor_command(FILE, learners) == [*command, "actor", *own]


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
        vertex.find_place(environ)
    text = str(caught.value)
    assert text.startswith("CLUSTER_SPEC") and "\n" not in text
    assert "PRIVATE KEY" not in text and "worker_pool_specs" not in text


def test_arguments_of_a_job_are_parsed_to_the_same_again(tmp_path):
    (tmp_path / "f.flags").write_text("--environment=catch\n--agent=vtrace\n--num_actors=3\n--lstm_size=0\n")
    parsed = vertex.parse_job(["vertex", f"--flagfile={tmp_path / 'f.flags'}", "--num_envs=8"])
    arguments = vertex.job_arguments(parsed)
    assert set(arguments) == {"--environment=catch", "--agent=vtrace", "--lstm_size=0", "--num_envs=8"}
    assert vertex.job_arguments(vertex.parse_job(["vertex", *arguments])) == arguments


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


@pytest.fixture
def container(tmp_path, monkeypatch):
    """Runs the main as a container of trial 2 with Python code as its child; returns the exit code."""

    def start(code, pool="workerpool0", *more):
        made = command(tmp_path, "child", AT_SIGTERM + COMPLETE + code)
        monkeypatch.setattr(vertex, "learner_command", lambda *_: made)
        monkeypatch.setattr(vertex, "actor_command", lambda *_: made)
        cluster = {"workerpool0": ["learner:2222"], "workerpool1": ["another:2222"]}
        for name in ("CLUSTER_SPEC", "TF_CONFIG"):
            monkeypatch.setenv(name, spec(pool, 0, cluster)["CLUSTER_SPEC"])
        monkeypatch.setenv("CLOUD_ML_TRIAL_ID", "2")
        monkeypatch.setenv("CLOUD_ML_HP_METRIC_FILE", str(tmp_path / "output.metrics"))
        flags = ("--environment=catch", "--agent=vtrace", f"--logdir={tmp_path}", *more)
        return vertex.main(["vertex", *flags])

    (tmp_path / "trial_2").mkdir()
    period = {"env_frames": 10, "seconds": 1.0, "mean_return": 0.5}
    (tmp_path / "trial_2" / "metrics.jsonl").write_text(json.dumps(period))
    return start


def test_only_the_first_of_several_learners_reports_a_trial_that_is_complete(container, tmp_path):
    several = ("--learner_replicas=2", "--insecure_reductions")
    assert container("exit(0)", "workerpool1", *several) == 0
    assert container(f"at_sigterm(143); os.kill({os.getpid()}, 15); for_ever()") == 143
    assert (tmp_path / "checkpoint").exists() and not (tmp_path / "output.metrics").exists()
    assert container("exit(0)", "workerpool0", *several) == 0
    assert json.loads((tmp_path / "output.metrics").read_text())["final_return"] == "0.5"


@pytest.mark.parametrize("pool", ["workerpool0", "workerpool1"])
def test_the_jobs_specification_is_kept_from_the_children(container, tmp_path, pool):
    seen = tmp_path / "environ"
    assert container(f"Path({str(seen)!r}).write_text(repr(dict(os.environ)))", pool) == 0
    assert "CLOUD_ML_TRIAL_ID" in seen.read_text()
    assert not any(text in seen.read_text() for text in ("CLUSTER_SPEC", "TF_CONFIG", "PRIVATE KEY"))


@pytest.mark.parametrize(
    ("flags", "expected"),
    [((), 300.0), (("--host_timeout_secs=60", "--learner_replicas=2", "--insecure_reductions"), 60.0)],
)
def test_the_processes_read_the_settings_with_every_value_in_a_bucket_mounted(monkeypatch, flags, expected):
    seen = []

    def learner_command(file, learners, index):
        seen.append(Settings.read_file(str(file)).values)
        raise UsageError("That is all.")

    cluster = {"workerpool0": ["a:1"], "workerpool1": ["b:1"] if flags else []}
    monkeypatch.setattr(vertex, "learner_command", learner_command)
    monkeypatch.setenv("CLUSTER_SPEC", spec("workerpool0", 0, cluster)["CLUSTER_SPEC"])
    monkeypatch.setenv("CLOUD_ML_TRIAL_ID", "7")
    with pytest.raises(UsageError, match="That is all"):
        vertex.main(["vertex", *FLAGS, LOGDIR, "--init_checkpoint=gs://b/run", *flags])
    values = [seen[0][name] for name in ("logdir", "init_checkpoint", "host_timeout_secs", "env_batch_size")]
    assert values == ["/gcs/my-runs/a/catch/trial_7", "/gcs/b/run", expected, 4]


def test_a_trial_without_an_episode_says_so_and_a_report_that_cannot_be_written_is_one_sentence(
    tmp_path, capsys
):
    metrics, period = tmp_path / "metrics.jsonl", {"env_frames": 10, "seconds": 1.0}
    environ = {"CLOUD_ML_HP_METRIC_FILE": str(metrics / "output.metrics")}
    metrics.write_text(json.dumps(period))
    vertex.report_trial(tmp_path, "2", environ)
    assert "trial 2 has finished no episode" in capsys.readouterr().err
    metrics.write_text(json.dumps(period | {"mean_return": 0.5}))
    with pytest.raises(UsageError, match=r"trial 2 reached 0\.5"):
        vertex.report_trial(tmp_path, "2", environ)
