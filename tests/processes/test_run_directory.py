"""A run directory belongs to one run: what does not fit is refused and changes nothing."""

import hashlib
import shutil

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


@pytest.mark.parametrize(
    ("flag", "directory", "words"),
    [
        ("--rows=12", "--logdir", "environment settings rows: 10 there, 12 now"),
        ("--mlp_sizes=32,32", "--init_checkpoint", "belongs to another network"),
    ],
)
def test_another_run_or_network_is_refused_and_left_alone(house, finished_run, flag, directory, words):
    before = contents(finished_run.house.logdir)
    learner = house.learner(flag, f"{directory}={finished_run.house.logdir}")
    assert learner.end() == 2
    assert learner.last_line.startswith("seed_rl: error: ") and words in learner.last_line
    assert contents(finished_run.house.logdir) == before
    assert not house.logdir.exists()
