"""The entry point of containers on Vertex AI: its place, its commands, its care for its children."""

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from seed_rl.flags.errors import UsageError
from seed_rl.launch import vertex
from seed_rl.launch.child import Child
from seed_rl.launch.supervisor import Timing

# A job with two actors, in the form that public code for Vertex AI reads.
CLUSTER = {
    "workerpool0": ["cmle-training-workerpool0-ab-0:2222"],
    "workerpool1": ["cmle-training-workerpool1-ab-0:2222", "cmle-training-workerpool1-ab-1:2222"],
}
FLAGS = ("--environment=catch", "--agent=vtrace", "--num_envs=16", "--env_batch_size=4", "--rows=7")
LOGDIR = "--logdir=gs://my-runs/a/catch/"
TIMING = Timing(poll=0.01, checkpoint_grace=20.0, first_backoff=0.01, same_signal=0.0)


def spec(pool="workerpool1", index=1, cluster=CLUSTER):
    task = {"type": pool, "index": index}
    return {
        "CLUSTER_SPEC": json.dumps({"cluster": cluster, "environment": "cloud", "task": task, "job": "{}"})
    }


def line(*flags):
    return vertex.parse_job(["vertex", *FLAGS, LOGDIR, *flags])


def test_the_place_is_read_from_the_cluster():
    address = CLUSTER["workerpool0"][0]
    assert vertex.find_place(spec("workerpool0", 0)) == vertex.Place(address, None)
    assert vertex.find_place(spec("workerpool1", 1)) == vertex.Place(address, 1)


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"CLUSTER_SPEC": "{"},
        {"CLUSTER_SPEC": "[]"},
        spec("workerpool2", 0),
        spec("workerpool1", "first"),
        spec(cluster={"workerpool0": []}),
        spec(cluster={"workerpool0": ["learner"]}),
    ],
)
def test_a_cluster_that_is_none_is_one_sentence(environ):
    with pytest.raises(UsageError) as caught:
        vertex.find_place(environ)
    assert str(caught.value).startswith("CLUSTER_SPEC") and "\n" not in str(caught.value)


def test_the_learner_listens_everywhere_at_its_port_and_writes_to_the_mounted_bucket():
    parsed = line("--learning_rate=0.01")
    place = vertex.Place(CLUSTER["workerpool0"][0], None)
    command = vertex.learner_command(parsed, place, vertex.run_directory(parsed, None))
    assert command[:3] == [sys.executable, "-m", "seed_rl.learner_main"]
    assert sorted(command[3:]) == sorted(
        [
            "--environment=catch",
            "--agent=vtrace",
            "--server_address=0.0.0.0:2222",
            "--logdir=/gcs/my-runs/a/catch",
            "--num_envs=16",
            "--rows=7",
            "--learning_rate=0.01",
        ]
    )


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_a_learner_on_this_machine_stays_on_it(host):
    command = vertex.learner_command(line(), vertex.Place(f"{host}:7", None), Path("x"))
    assert f"--server_address={host}:7" in command


def test_each_actor_of_a_replica_has_a_task_of_its_own():
    commands = vertex.actor_commands(line("--actors_per_replica=3"), vertex.Place("learner:2222", 2))
    assert list(commands) == [6, 7, 8]
    assert commands[7] == [
        *(sys.executable, "-m", "seed_rl.actor_main", "--environment=catch", "--task=7"),
        *("--server_address=learner:2222", "--tls_server_name=learner.seed-rl"),
        *("--env_batch_size=4", "--rows=7"),
    ]


def test_every_value_in_a_bucket_is_mounted():
    parsed = line("--init_checkpoint=gs://b/run", "--gcs_mount=/mnt")
    command = vertex.learner_command(parsed, vertex.Place("h:1", None), vertex.run_directory(parsed, "7"))
    assert {"--init_checkpoint=/mnt/b/run", "--logdir=/mnt/my-runs/a/catch/trial_7"} <= set(command)
    level_cache = vertex.parse_job(
        ["vertex", "--environment=dmlab", "--agent=vtrace", "--level_cache=gs://b/levels"]
    )
    (command,) = vertex.actor_commands(level_cache, vertex.Place("h:1", 0)).values()
    assert "--level_cache=/gcs/b/levels" in command


def test_arguments_of_a_job_are_parsed_to_the_same_again(tmp_path):
    (tmp_path / "f.flags").write_text("--environment=catch\n--agent=vtrace\n--num_actors=3\n--lstm_size=0\n")
    parsed = vertex.parse_job(["vertex", f"--flagfile={tmp_path / 'f.flags'}", "--num_envs=8"])
    arguments = vertex.job_arguments(parsed)
    assert set(arguments) == {"--environment=catch", "--agent=vtrace", "--lstm_size=0", "--num_envs=8"}
    assert vertex.job_arguments(vertex.parse_job(["vertex", *arguments])) == arguments


@pytest.mark.parametrize("flag", ["--task=1", "--server_address=x:1", "--lerning_rate=1", "--num_envs=0"])
def test_flags_that_are_not_for_a_job_are_refused(flag):
    with pytest.raises(UsageError):
        line(flag)


def children(tmp_path, *codes):
    return [
        Child(
            f"child {i}", [sys.executable, "-c", f"from pathlib import Path\n{code}"], tmp_path / f"{i}.log"
        )
        for i, code in enumerate(codes)
    ]


def test_a_crashed_actor_is_started_again_until_all_have_ended_well(tmp_path, capsys):
    mark = tmp_path / "started"
    crash_once = f"p = Path({str(mark)!r}); ran = p.exists(); p.touch(); exit(0 if ran else 3)"
    assert vertex.run(children(tmp_path, crash_once, ""), TIMING, restarting=True) == 0
    assert "child 0 ended with exit code 3; it is started again" in capsys.readouterr().err


def test_a_restart_that_fails_is_tried_again(tmp_path, monkeypatch, capsys):
    mark = tmp_path / "started"
    (child,) = children(
        tmp_path, f"p = Path({str(mark)!r}); ran = p.exists(); p.touch(); exit(0 if ran else 3)"
    )
    start, errors = child.start, [None, OSError("No space left on device"), None]

    def start_fails_once():
        if error := errors.pop(0):
            raise error
        start()

    monkeypatch.setattr(child, "start", start_fails_once)
    assert vertex.run([child], TIMING, restarting=True) == 0
    assert "child 0 could not be started (No space left on device);" in capsys.readouterr().err


def test_an_error_of_the_launcher_lets_the_learner_write_a_checkpoint(tmp_path, monkeypatch):
    ready, mark = tmp_path / "ready", tmp_path / "checkpoint"
    learner = f"""
import signal
def stop(*_):
    Path({str(mark)!r}).touch()
    raise SystemExit(0)
signal.signal(signal.SIGTERM, stop)
Path({str(ready)!r}).touch()
while True:
    signal.pause()
"""

    def fail(*_):
        if ready.exists():
            raise OSError("Too many open files")

    monkeypatch.setattr(vertex, "_failed", fail)
    with pytest.raises(OSError, match="Too many open files"):
        vertex.run(children(tmp_path, learner), TIMING, restarting=False)
    assert mark.exists()


@pytest.mark.parametrize(("restarting", "code"), [(True, 2), (False, 3)])
def test_a_child_that_failed_for_good_ends_all(tmp_path, restarting, code):
    started = children(tmp_path, f"exit({code})", "import signal; signal.pause()")
    assert vertex.run(started, TIMING, restarting) == code
    assert not started[1].running


def test_a_learner_that_is_killed_gives_the_code_of_a_shell(tmp_path):
    killed = children(tmp_path, "import os; os.kill(os.getpid(), 9)")
    assert vertex.run(killed, TIMING, restarting=False) == 128 + 9


def test_a_signal_goes_to_the_learner_which_ends_in_its_own_way(tmp_path):
    mark = tmp_path / "checkpoint"
    learner = f"""
import os, signal
def stop(*_):
    Path({str(mark)!r}).touch()
    raise SystemExit(0)
signal.signal(signal.SIGTERM, stop)
os.kill({os.getpid()}, {int(signal.SIGTERM)})
while True:
    signal.pause()
"""
    assert vertex.run(children(tmp_path, learner), TIMING, restarting=False) == 0
    assert mark.exists()


def test_a_trial_without_an_episode_reports_nothing_and_says_so(tmp_path, capsys):
    (tmp_path / "metrics.jsonl").write_text('{"env_frames": 10, "seconds": 1.0}\n')
    path = tmp_path / "output.metrics"
    vertex.report_trial(tmp_path, "2", {"CLOUD_ML_HP_METRIC_FILE": str(path)})
    assert "trial 2 has finished no episode" in capsys.readouterr().err and not path.exists()


def test_a_report_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"env_frames": 10, "seconds": 1.0, "mean_return": 0.5}\n')
    path = tmp_path / "metrics.jsonl" / "output.metrics"
    with pytest.raises(UsageError, match=r"trial 2 reached 0\.5"):
        vertex.report_trial(tmp_path, "2", {"CLOUD_ML_HP_METRIC_FILE": str(path)})
