"""A run directory belongs to one run: what does not fit is refused and changes nothing."""

import hashlib
import shutil
import signal
import socket

import pytest

from seed_rl.runs.layout import RunDirectory

pytestmark = pytest.mark.slow


def contents(directory):
    """Every file with its time of change and its hash."""
    return {
        path.relative_to(directory): (
            path.stat().st_mtime_ns,
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None,
        )
        for path in [directory, *directory.rglob("*")]
    }


def is_named(run, path):
    """Whether the layout has a name for a file, or for a folder that it is in."""
    prefixes = [*run.checkpoints.prefixes(), *run.best_checkpoints.prefixes()]
    files = {run.record, run.settings, run.metrics, run.best_record}
    files |= {run.actor_log(number) for number in range(100)}
    files |= {run.evaluation(prefix) for prefix in prefixes}
    folders = (run.events, run.saved_model)
    return path in files or path.with_suffix("") in prefixes or any(map(path.is_relative_to, folders))


def test_a_run_leaves_only_what_the_layout_names(house, finished_run):
    shutil.copytree(finished_run.house.logdir, house.logdir)
    run = RunDirectory(house.logdir)
    evaluate = house.start("evaluate", f"--logdir={run.path}", "--episodes=4", "--overwrite")
    assert evaluate.end() == 0, evaluate.output
    left = [path for path in run.path.rglob("*") if path.is_file()]
    assert [path for path in left if not is_named(run, path)] == []
    newest = run.checkpoints.prefixes()[0]
    for path in (run.record, run.metrics, run.best_record, run.actor_log(0), run.evaluation(newest)):
        assert path in left
    for folder in (run.events, run.evaluation_events, run.saved_model):
        assert any(path.is_relative_to(folder) for path in left)
    assert not is_named(run, run.path / "other.json")


def test_the_directory_of_another_run_is_refused_and_left_alone(house, finished_run):
    logdir = finished_run.house.logdir
    before = contents(logdir)
    learner = house.learner("--rows=12", f"--logdir={logdir}")
    assert learner.end() == 2
    assert "environment settings rows: 10 there, 12 now" in learner.last_line
    assert contents(logdir) == before


def test_a_first_checkpoint_of_another_network_is_refused(house, finished_run):
    before = contents(finished_run.house.logdir)
    learner = house.learner("--mlp_sizes=32,32", f"--init_checkpoint={finished_run.house.logdir}")
    assert learner.end() == 2
    assert learner.last_line.startswith("seed_rl: error: The checkpoint ")
    assert "belongs to another network" in learner.last_line
    assert contents(finished_run.house.logdir) == before
    assert not house.logdir.exists()


def in_use(logdir, learner):
    return (
        f"seed_rl: error: The run directory {logdir} is in use by process {learner.pid} on host "
        f"{socket.gethostname()}; stop it, or choose another --logdir."
    )


def test_a_run_directory_has_one_learner_at_a_time(house):
    """A second is refused, by a launcher too, and the first trains on; once it is killed, a third resumes."""
    first, actors = house.learner("--save_checkpoint_secs=0.5"), [house.actor() for _ in range(4)]
    house.wait_for_metrics(lambda line: line["updates"] > 0, first)
    house.wait_for_checkpoint(first)
    second = house.learner(f"--server_address=unix:{house.path}/t")
    assert second.end() == 2
    assert second.last_line == in_use(house.logdir, first)
    launcher = house.start(
        "train", "catch", "vtrace", "1", "16", *house.small[2:], f"--logdir={house.logdir}"
    )
    assert launcher.end() == 2
    assert launcher.last_line == in_use(house.logdir, first)
    assert not (house.logdir / "actor_0.log").exists()
    seen = len(house.metrics())
    house.wait_for_metrics(lambda line: line["updates"] > 0, first, after=seen)

    first.signal(signal.SIGKILL)
    assert first.end() == -signal.SIGKILL
    seen = len(house.metrics())
    third = house.learner()
    house.wait_for_metrics(lambda line: line["updates"] > 0, third, after=seen)
    assert "Resuming from " in third.output
    assert all(actor.running for actor in actors)
    third.signal(signal.SIGTERM)
    assert third.end() == 143
    assert "Stopped with a checkpoint" in third.output
    assert not (house.logdir / "learner.lock").exists()
