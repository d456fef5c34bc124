"""A container on Vertex AI looks after its children, and reports its trial."""

import json
import os
import signal
import sys

import pytest

from seed_rl.commands import vertex
from seed_rl.flags.errors import UsageError
from seed_rl.launch.child import Child
from seed_rl.launch.watch import Timing

TIMING = Timing(poll=0.01, checkpoint_grace=20.0, first_backoff=0.01, longest_backoff=0.01, same_signal=0.0)

# What all children begin with: it counts its starts, and says what it does at SIGTERM.
CHILD = """
import os, signal, sys, time
from pathlib import Path
here = Path({directory!r})
starts = len(list(here.glob("start.*")))
(here / f"start.{{starts}}").touch()
def at_sigterm(code):
    def stop(*_):
        (here / "checkpoint").touch()
        raise SystemExit(code)
    signal.signal(signal.SIGTERM, stop)
def pause():
    while True:  # In turns: Python handles a signal that comes just before a wait only after it.
        time.sleep(0.05)
"""

# As a learner and an actor report that training is complete; their exit code 0 does not count without it.
COMPLETE = "from seed_rl.messages import COMPLETE, report_to_launcher\nreport_to_launcher(COMPLETE)\n"


def run(children, most_restarts=None, **options):
    return vertex.run_children(children, most_restarts, timing=TIMING, **options)


def learner(tmp_path, code, name="the learner"):
    begin = CHILD.format(directory=str(tmp_path))
    return Child(name, [sys.executable, "-c", f"{begin}\n{code}"], tmp_path / "log")


def starts(tmp_path):
    return len(list(tmp_path.glob("start.*")))


def test_a_crashed_actor_is_started_again_until_all_have_ended_well(tmp_path, capsys):
    other = tmp_path / "other"
    other.mkdir()
    assert run([learner(tmp_path, "exit(0 if starts else 3)", "actor 0"), learner(other, "")]) == 0
    assert "actor 0 ended with exit code 3 (" in (said := capsys.readouterr().err) and "; restart 1." in said


@pytest.mark.parametrize(("most_restarts", "code"), [(None, 2), (5, 2), (0, 3)])
def test_a_child_that_failed_for_good_ends_all(tmp_path, most_restarts, code):
    started = [learner(tmp_path, f"exit({code})"), learner(tmp_path, "pause()")]
    assert run(started, most_restarts) == code
    assert not started[1].running


@pytest.mark.parametrize(("crash", "code"), [("exit(3)", 3), ("os.kill(os.getpid(), 6)", 134)])
def test_a_learner_that_crashes_is_started_again_so_many_times(tmp_path, capsys, crash, code):
    assert run([learner(tmp_path, crash)], 2) == code
    assert starts(tmp_path) == 3
    said = capsys.readouterr().err
    assert "restart 1 of 2." in said and "restart 2 of 2." in said
    assert said.splitlines()[-1].endswith("it is not started again.")


@pytest.mark.parametrize("prepare", ["at_sigterm(143); ", ""])
def test_a_learner_that_sigterm_ended_is_not_started_again(tmp_path, prepare):
    assert run([learner(tmp_path, f"{prepare}os.kill(os.getpid(), 15); pause()")], 5) == 143
    assert starts(tmp_path) == 1


def test_one_of_several_learners_that_stopped_with_another_one_is_started_again(tmp_path, capsys):
    assert run([learner(tmp_path, "exit(0 if starts else 143)")], 5, may_be_stopped=True) == 0
    assert starts(tmp_path) == 2
    assert "restart 1 of 5" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("signum", "code", "expected"),
    [(signal.SIGINT, 143, 130), (signal.SIGTERM, 143, 143), (signal.SIGTERM, 1, 143), (signal.SIGTERM, 0, 0)],
)
def test_a_signal_leaves_a_checkpoint_and_its_own_exit_code_unless_training_is_complete(
    tmp_path, signum, code, expected
):
    stopped = f"at_sigterm({code}); os.kill({os.getpid()}, {int(signum)}); pause()"
    assert run([learner(tmp_path, stopped)], 5) == expected
    assert (tmp_path / "checkpoint").exists() and starts(tmp_path) == 1


def test_a_signal_to_the_actors_container_gives_its_exit_code(tmp_path):
    actors = [learner(tmp_path, "at_sigterm(143); pause()"), learner(tmp_path, "exit(0)")]
    sender = learner(tmp_path, f"at_sigterm(143); os.kill({os.getpid()}, 15); pause()")
    assert run([*actors, sender]) == 143


def cluster_spec(pool):
    """As the documentation has it: `job` is the whole specification, with the learner's key."""
    cluster = {"workerpool0": ["learner:2222"], "workerpool1": ["actors-0:2222"]}
    task = {"type": pool, "index": 0, "trial": "2"}
    return json.dumps({"cluster": cluster, "environment": "cloud", "task": task, "job": ["the key"]})


@pytest.fixture
def container(tmp_path, monkeypatch):
    """Runs the main as a container of trial 2 with Python code as its child; returns the exit code."""

    def start(code, pool="workerpool0", *more):
        command = [sys.executable, "-c", CHILD.format(directory=str(tmp_path)) + COMPLETE + code]
        monkeypatch.setattr(vertex, "learner_command", lambda *_: command)
        monkeypatch.setattr(vertex, "actor_commands", lambda *_: {0: command})
        monkeypatch.setenv("CLUSTER_SPEC", cluster_spec(pool))
        monkeypatch.setenv("TF_CONFIG", cluster_spec(pool))
        monkeypatch.setenv("CLOUD_ML_TRIAL_ID", "2")
        monkeypatch.setenv("CLOUD_ML_HP_METRIC_FILE", str(tmp_path / "output.metrics"))
        flags = ("--environment=catch", "--agent=vtrace", f"--logdir={tmp_path}", *more)
        return vertex.main(["vertex", *flags])

    (tmp_path / "trial_2").mkdir()
    (tmp_path / "trial_2" / "metrics.jsonl").write_text(
        '{"env_frames": 10, "seconds": 1.0, "mean_return": 0.5}\n'
    )
    return start


def test_only_the_first_of_several_learners_reports_a_trial_that_is_complete(container, tmp_path):
    assert container("exit(0)", "workerpool1", "--learner_replicas=2", "--insecure_reductions") == 0
    assert not (tmp_path / "output.metrics").exists()
    assert container("exit(0)", "workerpool0", "--learner_replicas=2", "--insecure_reductions") == 0
    assert json.loads((tmp_path / "output.metrics").read_text())["final_return"] == "0.5"


def test_a_trial_that_was_stopped_reports_nothing(container, tmp_path):
    assert container(f"at_sigterm(143); os.kill({os.getpid()}, 15); pause()") == 143
    assert (tmp_path / "checkpoint").exists() and not (tmp_path / "output.metrics").exists()


@pytest.mark.parametrize("pool", ["workerpool0", "workerpool1"])
def test_the_jobs_specification_is_kept_from_the_children(container, tmp_path, pool):
    seen = tmp_path / "environ"
    assert container(f"Path({str(seen)!r}).write_text(repr(dict(os.environ)))", pool) == 0
    assert "CLOUD_ML_TRIAL_ID" in seen.read_text()
    assert not any(text in seen.read_text() for text in ("CLUSTER_SPEC", "TF_CONFIG", "the key"))


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
