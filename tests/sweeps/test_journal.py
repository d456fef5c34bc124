import os

import pytest

from seed_rl.runs import lock
from seed_rl.sweeps import journal
from seed_rl.sweeps.outcome import Outcome
from seed_rl.sweeps.study import Trials, latest, outcomes

DONE = Outcome(0, 1.5, "mean_return", 1000, 10.0)
MINE = {"environment": "catch", "space": {"a": {"uniform": [0, 1]}}, "sweep_seed": 1}


def held(path, identity=MINE):
    with journal.held(path, identity) as study:
        return study


def refusal(path, identity=MINE, attempt=journal.read):
    with pytest.raises(ValueError) as caught:
        attempt(path, identity)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def add_trial(study, space):
    Trials(study, 1, 1).values(1, space, 1, "random")


def test_a_new_directory_is_made_and_read_again(tmp_path, space):
    path = tmp_path / "a" / "b"
    assert latest(journal.read(path, MINE)) == {}
    assert not path.parent.exists()
    add_trial(held(path), space)
    for study in (journal.read(path, MINE), held(path)):
        assert list(latest(study)) == [1]
        assert study.user_attrs == {"identity": MINE}
    assert [found.name for found in path.iterdir()] == ["journal.log"]


def test_another_sweep_is_refused_with_the_difference(tmp_path):
    held(tmp_path)
    before = (tmp_path / "journal.log").read_bytes()
    words = "space a uniform: [0, 1] there, [0, 2] now"
    for attempt in (journal.read, held):
        text = refusal(tmp_path, {**MINE, "space": {"a": {"uniform": [0, 2]}}}, attempt)
        assert f"--logdir={tmp_path} belongs to another sweep ({words}); use another" in text
    assert (tmp_path / "journal.log").read_bytes() == before


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("run.json", "contains runs but no journal.log; use another."),
        ("trial_001", "contains runs but no journal.log; use another."),
    ],
)
def test_directories_of_others_are_refused_and_left_alone(tmp_path, name, words):
    (tmp_path / name).write_text("{}")
    for attempt in (journal.read, held):
        assert words in refusal(tmp_path, attempt=attempt)
    assert [found.name for found in tmp_path.iterdir()] == [name]


def test_a_file_is_no_directory(tmp_path):
    (tmp_path / "file").touch()
    assert "is a file; name a directory" in refusal(tmp_path / "file")
    assert "cannot be written" in refusal(tmp_path / "file", attempt=held)


DAMAGE = {
    "garbage": lambda lines: [b"\0\xff\n", *lines],
    "lost line": lambda lines: lines[1:],
    "half a line": lambda lines: [lines[0], lines[1][:20] + b"\n", *lines[2:]],
    "another JSON": lambda lines: [*lines, b"[]\n"],
    "deep": lambda lines: [*lines, b"[" * 100_000 + b"\n", lines[-1]],
    "unknown operation": lambda lines: [*lines, b'{"op_code": 99, "worker_id": "a"}\n'],
    "no number": lambda lines: [line.replace(b'{"trial":1}', b"{}") for line in lines],
    "no outcome": lambda lines: [line.replace(b'"exit_code":0', b'"exit":0') for line in lines],
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_journal_is_refused_in_one_sentence_and_left_alone(tmp_path, space, damage):
    study = held(tmp_path)
    add_trial(study, space)
    Trials(study, 1, 2).record(1, 1, DONE)
    path = tmp_path / "journal.log"
    lines = path.read_bytes().splitlines(keepends=True)
    damaged = b"".join(DAMAGE[damage](lines))
    assert damaged != b"".join(lines)
    path.write_bytes(damaged)
    for attempt in (journal.read, held):
        text = refusal(tmp_path, attempt=attempt)
        assert f"{path} cannot be read (" in text and len(text) < 600
    assert path.read_bytes() == damaged


@pytest.mark.parametrize("kept", [0, 1, 30])
def test_a_line_that_a_full_disk_left_incomplete_is_dropped(tmp_path, space, kept):
    study = held(tmp_path)
    add_trial(study, space)
    path = tmp_path / "journal.log"
    complete = path.read_bytes()
    Trials(study, 1, 2).record(1, 1, DONE)
    os.truncate(path, len(complete) + kept)
    study = held(tmp_path)
    Trials(study, 1, 2).record(1, 2, DONE)
    assert outcomes(latest(journal.read(tmp_path, MINE))[1]) == {2: DONE}


def test_an_empty_journal_is_a_new_one(tmp_path):
    (tmp_path / "journal.log").touch()
    assert latest(journal.read(tmp_path, MINE)) == {}
    assert held(tmp_path).user_attrs == {"identity": MINE}


def test_only_one_sweep_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(lock, "_SAME_HOST_SECS", 0.1)
    with journal.held(tmp_path, MINE):
        assert f"{tmp_path} is in use by process {os.getpid()} on host" in refusal(tmp_path, attempt=held)
    held(tmp_path)
    assert os.listdir(tmp_path) == ["journal.log"]
