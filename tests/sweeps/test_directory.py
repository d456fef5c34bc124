import json

import pytest

from seed_rl.sweeps import directory

MINE = {"environment": "catch", "space": {"a": {"uniform": [0, 1]}}, "sweep_seed": 1}


def held(path, identity=MINE):
    with directory.held(path, identity):
        return json.loads((path / "sweep.json").read_text())


def test_a_new_directory_is_made_and_says_what_it_is_for(tmp_path):
    path = tmp_path / "a" / "b"
    directory.check(path, MINE)
    assert not path.parent.exists()
    assert held(path) == MINE
    directory.check(path, MINE)
    assert held(path) == MINE
    assert [found.name for found in path.iterdir()] == ["sweep.json"]


def test_another_sweep_is_refused_with_the_difference(tmp_path):
    held(tmp_path)
    before = (tmp_path / "sweep.json").read_bytes()
    words = "space a uniform: [0, 1] there, [0, 2] now"
    for attempt in (directory.check, held):
        with pytest.raises(ValueError) as caught:
            attempt(tmp_path, {**MINE, "space": {"a": {"uniform": [0, 2]}}})
        assert f"--logdir={tmp_path} belongs to another sweep ({words}); use another" in str(caught.value)
    assert (tmp_path / "sweep.json").read_bytes() == before


def test_files_runs_and_broken_records_are_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="is a file; name a directory"):
        directory.check(tmp_path / "file", MINE)
    with pytest.raises(ValueError, match="cannot be used as a directory"):
        held(tmp_path / "file")
    for name in ("run.json", "trial_001"):
        path = tmp_path / f"with_{name}"
        path.mkdir()
        (path / name).touch()
        with pytest.raises(ValueError, match=r"contains runs but no sweep\.json; use another"):
            directory.check(path, MINE)
    for text in ("{", "[" * 3000, "\0"):
        (tmp_path / "sweep.json").write_text(text)
        with pytest.raises(ValueError, match=r"sweep\.json cannot be read"):
            directory.check(tmp_path, MINE)
    for text in ("[]", "null", "3", '"x"'):
        (tmp_path / "sweep.json").write_text(text)
        with pytest.raises(ValueError, match=r"belongs to another sweep"):
            directory.check(tmp_path, MINE)


def test_only_one_sweep_at_a_time(tmp_path):
    with directory.held(tmp_path, MINE):
        with pytest.raises(ValueError, match=f"A sweep is already running in {tmp_path}; wait until"):
            held(tmp_path)
    assert held(tmp_path) == MINE
