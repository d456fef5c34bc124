"""A container on Vertex AI looks after its children, and reports its trial."""

import os
import signal
import sys

import pytest

from seed_rl import vertex_main
from seed_rl.flags.errors import UsageError
from seed_rl.launch.child import Child
from seed_rl.launch.supervisor import Timing
from seed_rl.vertex_main import Crew

TIMING = Timing(poll=0.01, checkpoint_grace=20.0, first_backoff=0.01, same_signal=0.0)


def run(children, restarting):
    return Crew(children, restarting, TIMING).run()


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
    assert run(children(tmp_path, crash_once, ""), restarting=True) == 0
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
    assert run([child], restarting=True) == 0
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

    monkeypatch.setattr(vertex_main.Restarts, "take", fail)
    with pytest.raises(OSError, match="Too many open files"):
        run(children(tmp_path, learner), restarting=False)
    assert mark.exists()


@pytest.mark.parametrize(("restarting", "code"), [(True, 2), (False, 3)])
def test_a_child_that_failed_for_good_ends_all(tmp_path, restarting, code):
    started = children(tmp_path, f"exit({code})", "import signal; signal.pause()")
    assert run(started, restarting=restarting) == code
    assert not started[1].running


def test_a_learner_that_is_killed_gives_the_code_of_a_shell(tmp_path):
    killed = children(tmp_path, "import os; os.kill(os.getpid(), 9)")
    assert run(killed, restarting=False) == 128 + 9


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
    assert run(children(tmp_path, learner), restarting=False) == 0
    assert mark.exists()


def test_a_trial_without_an_episode_reports_nothing_and_says_so(tmp_path, capsys):
    (tmp_path / "metrics.jsonl").write_text('{"env_frames": 10, "seconds": 1.0}\n')
    path = tmp_path / "output.metrics"
    vertex_main.report_trial(tmp_path, "2", {"CLOUD_ML_HP_METRIC_FILE": str(path)})
    assert "trial 2 has finished no episode" in capsys.readouterr().err and not path.exists()


def test_a_report_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"env_frames": 10, "seconds": 1.0, "mean_return": 0.5}\n')
    path = tmp_path / "metrics.jsonl" / "output.metrics"
    with pytest.raises(UsageError, match=r"trial 2 reached 0\.5"):
        vertex_main.report_trial(tmp_path, "2", {"CLOUD_ML_HP_METRIC_FILE": str(path)})
