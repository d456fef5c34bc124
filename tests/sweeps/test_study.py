"""The study in a directory, and the bookkeeping of trials and seeds, without runs."""

import json
import math
import os
from pathlib import Path

import pytest

from seed_rl.flags.errors import UsageError
from seed_rl.runs import lock
from seed_rl.sweeps.study import Trials, load, make_pruner
from seed_rl.sweeps.trials import SweepRun, draw

MINE = {"environment": "catch", "space": {"a": {"uniform": [0, 1]}}, "sweep_seed": 1}
FAILED = "failed"


class AnySweep:
    """A sweep of a space, whose flags nothing has checked."""

    def __init__(self, space, directory=Path("none")):
        self.space, self.sweep_seed, self.directory = space, 1, directory

    def run(self, trial, seed, values):
        return SweepRun(
            trial, seed, values, [], self.directory / f"{trial}_{seed}", self.directory / "log", 1000
        )


def trials_of(study, space, trials, seeds, sampler="random", retry_failed=False):
    return Trials(study, AnySweep(space), trials, seeds, sampler, retry_failed)


def play(trials, number, seed, end):
    """Starts a run and records its end: its return, `FAILED`, or None if no episode ended."""
    run = trials.run(number, seed)
    trials.start(run)
    value, code = (None, 3) if end == FAILED else (end, 0)
    trials.record(run, code, value, "in words")


def row(trials, number):
    return next(row for row in trials.table() if row["trial"] == number)


@pytest.fixture
def study(tmp_path):
    return load(tmp_path, MINE)


def refusal(path, identity=MINE, writes=True):
    with pytest.raises(ValueError) as caught:
        load(path, identity, writes)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_new_directory_is_read_again(tmp_path, space):
    assert load(tmp_path / "new", MINE, writes=False).trials == []
    assert not list(tmp_path.iterdir())
    (tmp_path / "journal.log").touch()  # As a killed process may leave it.
    assert load(tmp_path, MINE, writes=False).trials == []
    play(trials_of(load(tmp_path, MINE), space, 1, 1), 1, 1, 1.5)
    for writes in (False, True):
        found = load(tmp_path, MINE, writes)
        assert [run.value for run in found.trials] == [1.5]
        assert found.user_attrs == {"identity": MINE}
    assert [found.name for found in tmp_path.iterdir()] == ["journal.log"]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("run.json", "{}", "contains runs but no journal.log; use another."),
        ("trial_001", "", "contains runs but no journal.log; use another."),
        (".", None, "is a file; name a directory"),
        ("journal.log", None, "another sweep (space a uniform: [0, 1] there, [0, 2] now); use another"),
    ],
)
def test_directories_of_others_are_refused_and_left_alone(tmp_path, name, content, words):
    logdir, other = tmp_path / "sweep", {**MINE, "space": {"a": {"uniform": [0, 2]}}}
    if name == ".":
        logdir.touch()
    elif content is None:
        load(logdir.mkdir() or logdir, MINE)
    else:
        logdir.mkdir()
        (logdir / name).write_text(content)
    before = {path: path.is_file() and path.read_bytes() for path in tmp_path.rglob("*")}
    for writes in (False, True):
        text = refusal(logdir, other, writes)
        assert words in text and f"--logdir={logdir}" in text
    assert {path: path.is_file() and path.read_bytes() for path in tmp_path.rglob("*")} == before


DAMAGE = {
    "garbage": lambda lines: [b"\0\xff\n", *lines],
    "lost line": lambda lines: lines[1:],
    "half a line": lambda lines: [lines[0], lines[1][:20] + b"\n", *lines[2:]],
    "another JSON": lambda lines: [*lines, b"[]\n"],
    "deep": lambda lines: [*lines, b"[" * 100_000 + b"\n", lines[-1]],
    "unknown operation": lambda lines: [*lines, b'{"op_code": 99, "worker_id": "a"}\n'],
    "an earlier version": lambda lines: [line.replace(b',"seed":1', b"") for line in lines],
    "no number": lambda lines: [line.replace(b'{"trial":1,"seed":1}', b"{}") for line in lines],
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_journal_is_refused_in_one_sentence_and_left_alone(tmp_path, study, space, damage):
    play(trials_of(study, space, 1, 1), 1, 1, 1.5)
    path = tmp_path / "journal.log"
    lines = path.read_bytes().splitlines(keepends=True)
    damaged = b"".join(DAMAGE[damage](lines))
    assert damaged != b"".join(lines)
    path.write_bytes(damaged)
    for writes in (False, True):
        text = refusal(tmp_path, writes=writes)
        assert f"{path} cannot be read (" in text and len(text) < 600
    assert path.read_bytes() == damaged


@pytest.mark.parametrize("kept", [0, 1, 30])
def test_a_line_that_a_full_disk_left_incomplete_is_dropped(tmp_path, study, space, kept):
    trials = trials_of(study, space, 1, 2)
    trials.start(trials.run(1, 1))
    path = tmp_path / "journal.log"
    complete = path.read_bytes()
    play(trials, 1, 2, 1.0)
    os.truncate(path, len(complete) + kept)
    assert len(load(tmp_path, MINE, writes=False).trials) == 1
    assert path.stat().st_size == len(complete) + kept
    play(trials_of(load(tmp_path, MINE), space, 1, 2), 1, 2, 4.0)
    assert [run.value for run in load(tmp_path, MINE, writes=False).trials] == [None, 4.0]


def test_only_one_sweep_at_a_time(sweeping, monkeypatch):
    monkeypatch.setattr(lock, "_SAME_HOST_SECS", 0.1)
    with lock.held(sweeping.logdir):
        with pytest.raises(UsageError, match=f"is in use by process {os.getpid()} on host"):
            sweeping("--trials=1")
        assert sweeping("--trials=1", "--dry_run") == 0
    assert sweeping("--trials=1") == 0
    assert not (sweeping.logdir / "learner.lock").exists()


def test_a_trial_has_the_mean_of_its_seeds_once_all_have_ended(study, space):
    trials = trials_of(study, space, 3, 2)
    play(trials, 1, 1, 1.0)
    assert row(trials, 1)["state"] == "running"
    assert trials.left() == [(1, 2), (2, 1), (2, 2), (3, 1), (3, 2)]
    play(trials, 1, 2, 4.0)
    assert (row(trials, 1)["state"], row(trials, 1)["final_return"]) == ("complete", 2.5)
    assert [trial.value for trial in trials.means().trials] == [2.5]
    for seed in (1, 2):
        play(trials, 2, seed, FAILED)
        play(trials, 3, seed, None)
    assert (row(trials, 2)["state"], row(trials, 2)["seeds_failed"]) == ("failed", 2)
    # No episode has ended in them, but that is no failure of a run.
    assert (row(trials, 3)["final_return"], row(trials, 3)["seeds_done"]) == (None, 2)
    assert (trials.left(), trials.failed()) == ([], 2)
    assert trials_of(study, space, 3, 2, retry_failed=True).left() == [(2, 1), (2, 2)]


@pytest.mark.parametrize(
    ("ended", "seeds", "retry", "left"),
    [
        ({1: 1.0}, 1, False, []),
        ({1: 1.0}, 3, False, [2, 3]),
        ({1: FAILED}, 1, False, []),
        ({1: FAILED}, 1, True, [1]),
        ({1: FAILED}, 2, False, [2]),
        ({1: FAILED, 2: 1.0}, 2, True, [1]),
        ({1: FAILED, 2: 1.0}, 3, True, [1, 3]),
        ({2: FAILED}, 2, True, [1, 2]),  # Trained by two processes, and stopped before seed 1 had ended.
        ({1: 1.0, 2: 4.0}, 1, False, []),
    ],
)
def test_more_seeds_and_failed_runs_leave_a_trial_open(study, space, tmp_path, ended, seeds, retry, left):
    first = trials_of(study, space, 1, max(ended))
    for seed, end in ended.items():
        play(first, 1, seed, end)
    trials = trials_of(load(tmp_path, MINE), space, 1, seeds, retry_failed=retry)
    assert trials.left() == [(1, seed) for seed in left]
    assert (row(trials, 1)["state"] == "running") == bool(left)
    for seed in left:
        play(trials, 1, seed, float(seed))
    assert trials.left() == [] and row(trials, 1)["state"] != "running"
    assert {tuple(run.params.items()) for run in trials.runs().values()} == {tuple(draw(space, 1, 1).items())}
    kept = [end for seed, end in ended.items() if seed not in left and end != FAILED]
    expected = [*kept, *map(float, left)]
    mean = pytest.approx(sum(expected) / len(expected)) if expected else None
    assert row(trials, 1)["final_return"] == mean


def test_an_interrupted_run_goes_on_and_with_fewer_seeds_a_trial_has_ended(study, space):
    play(trials_of(study, space, 1, 3), 1, 1, FAILED)
    trials = trials_of(study, space, 1, 3, retry_failed=True)
    trials.start(trials.run(1, 1))
    again = trials_of(study, space, 1, 3)
    assert again.left() == [(1, 1), (1, 2), (1, 3)] and again.failed() == 0
    again.start(again.run(1, 1))
    assert len(study.trials) == 2
    again.record(again.run(1, 1), 0, 2.0, "in words")
    again.start(again.run(1, 2))
    fewer = trials_of(study, space, 1, 1)
    assert (row(fewer, 1)["state"], row(fewer, 1)["final_return"]) == ("complete", 2.0)


def write_returns(run, curve):
    run.logdir.mkdir(parents=True, exist_ok=True)
    lines = [
        json.dumps({"env_frames": frames, "seconds": 1, "mean_return": value}) for frames, value in curve
    ]
    (run.logdir / "metrics.jsonl").write_text("".join(f"{line}\n" for line in lines))


def test_the_median_pruner_waits_for_five_trials_and_a_quarter_of_the_run(study, space, tmp_path):
    study.pruner = make_pruner("median", 1000)
    trials = Trials(study, AnySweep(space, tmp_path), 7, 2, "random", False)
    good = [(frames, 1.0) for frames in range(50, 1001, 50)]
    bad = [(frames, 0.0) for frames, _ in good]

    def reported(number, curve, seed=1):
        run = trials.run(number, seed)
        trials.start(run)
        write_returns(run, curve)
        return trials.report(run)

    for number in range(1, 6):
        # Eight complete seeds of four trials are not enough to prune the fifth.
        assert not reported(number, bad if number in (1, 5) else good)
        trials.record(trials.run(number, 1), 0, 1.0, "")
        play(trials, number, 2, 1.0)
    assert not reported(6, bad[:4]) and not reported(6, bad, seed=2)
    assert reported(6, bad[:6])
    assert list(trials.runs()[6, 1].intermediate_values) == [50, 100, 150, 200, 250]
    assert not reported(7, good)
    trials.prune(6)
    assert trials.is_pruned(trials.run(6, 2)) and not trials.is_pruned(trials.run(7, 1))
    assert trials.left() == [(7, 1), (7, 2)] and row(trials, 6)["state"] == "pruned"
    assert [trial.state.name for trial in trials.means().trials] == [*["COMPLETE"] * 5, "PRUNED"]


def test_returns_are_reported_at_twentieths_of_a_run_and_once(study, space, tmp_path):
    trials = Trials(study, AnySweep(space, tmp_path), 1, 1, "random", False)
    run = trials.run(1, 1)
    trials.start(run)
    assert not trials.report(run)
    for curve in ([], [(30, 1.0)], [(30, 1.0), (120, 2.0)], [(30, 1.0), (120, 2.0), (1004, 3.0)]):
        write_returns(run, curve)
        assert not trials.report(run)
    values = trials.runs()[1, 1].intermediate_values
    assert values == {50: 1.0, 100: 1.0, **dict.fromkeys(range(150, 1001, 50), 2.0)}


def test_importances_need_ten_trials_and_are_led_by_the_flag_that_matters(study, space):
    trials = trials_of(study, space, 20, 1)
    for number, seed in trials.left():
        if number == 10:
            assert trials.importances() == {}
        play(trials, number, seed, math.log(trials.run(number, seed).values["learning_rate"]))
    shares = trials.importances()
    assert set(shares) == set(space.parameters) and sum(shares.values()) == pytest.approx(1.0)
    assert max(shares, key=shares.__getitem__) == "learning_rate"
