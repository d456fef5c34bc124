"""Checkpoints that exist, are kept and are removed, by the names of the files alone."""

import os
from pathlib import Path

import pytest

from seed_rl.runs.layout import CheckpointDirectory, RunDirectory
from seed_rl.training.checkpoint import (
    Rotation,
    best_checkpoint,
    files_of,
    is_whole,
    newest_checkpoint,
    remove,
)
from tests.selection import mostly_long, mostly_slow
from tests.training.test_checkpoint import PairRun, save, small_run

HOUR = 3600


@pytest.fixture
def directory(tmp_path):
    return CheckpointDirectory(tmp_path / "checkpoints")


def touch(directory, updates, hours=0.0):
    """The files of a checkpoint, written so many hours after some moment."""
    directory.path.mkdir(exist_ok=True)
    for ending in (".data-00000-of-00001", ".index"):
        path = directory.path / f"ckpt-{updates}{ending}"
        path.touch()
        os.utime(path, (1e9 + HOUR * hours,) * 2)
    return directory.prefix(updates)


def present(directory):
    """The checkpoints that are there, and that nothing else is."""
    found = [int(prefix.name.removeprefix("ckpt-")) for prefix in directory.prefixes()][::-1]
    assert len(list(directory.path.iterdir())) == 2 * len(found)
    return found


def test_the_last_ones_are_kept_and_one_per_hour(directory):
    touch(directory, 0)
    rotation = Rotation(directory, 2, 1.0)
    for updates in range(1, 11):
        rotation.add(touch(directory, updates, hours=0.3 * updates))
    assert present(directory) == [4, 8, 9, 10]  # At 1.2 and 2.4 hours, and the last two.
    resumed = Rotation(directory, 2, 1.0)
    for updates in range(11, 16):
        resumed.add(touch(directory, updates, hours=0.3 * updates))
    assert present(directory) == [4, 8, 12, 14, 15]


@pytest.mark.parametrize(
    ("before", "written"),
    [
        ((), (1, 2, 2, 2)),  # One may be written again.
        ((1, 2, 3), (2, 1)),  # After a step back, the newest are those written last.
    ],
)
def test_the_newest_are_those_written_last(directory, before, written):
    for updates in before:
        touch(directory, updates)
    rotation = Rotation(directory, 2, 1.0)
    for updates in written:
        rotation.add(touch(directory, updates))
    assert present(directory) == [1, 2]


# Names beside checkpoint 5, which is complete, and 6, which is not: whether an interrupted save leaves them.
BESIDE = {
    "ckpt-6.data-00000-of-00001": True,
    "ckpt-6.data-00001-of-00002": True,
    "unfinished/ckpt-7.index": True,
    "unfinished/ckpt-7_temp/part-00000-of-00001.data-00000-of-00001.tempstate12": True,
    # Of people, of other programs, of complete checkpoints, and of those that are kept because of damage.
    "ckpt-5.data-00000-of-00001": False,
    "ckpt-5.index": False,
    "ckpt-6.data-00000-of-00001.damaged": False,
    "ckpt-6.index.damaged": False,
    "ckpt-6.data-00000-of-00001.bak": False,
    "ckpt-6.data": False,
    "ckpt-6/variables": False,
    "ckpt-best.data-00000-of-00001": False,
    "other-6.data-00000-of-00001": False,
    "checkpoint": False,
    "replay.bin": False,
    "model.tmp": False,
}


def test_a_save_removes_what_an_interrupted_one_has_left_and_nothing_else(tmp_path):
    directory = RunDirectory(tmp_path).checkpoints.path
    for name in BESIDE:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text("x")
    save(small_run(tmp_path, keep=9), 9)
    wrong = [name for name, is_left in BESIDE.items() if (directory / name).exists() == is_left]
    assert wrong == []
    assert (directory / "ckpt-9.index").exists()
    assert not (directory / "unfinished").exists()


# How many of a checkpoint's files, the data first, have their names when the process is killed; whether
# `unfinished` is a link to elsewhere.
PLACED = [(0, False), (1, False), (0, True)]


@pytest.mark.parametrize(("placed", "is_link"), PLACED)
@pytest.mark.parametrize("name", ["checkpoints", "best_checkpoints", "kept_checkpoints"])
def test_a_checkpoint_that_was_complete_gets_its_names_at_the_next_start(tmp_path, name, placed, is_link):
    run = PairRun(tmp_path / "run")
    run.checkpointer.save()
    run.checkpointer.save_if_best(1.0)
    run.checkpointer.keep()
    found = getattr(RunDirectory(tmp_path / "run"), name)
    data, index = files_of(found.prefix(0))
    elsewhere = tmp_path / "elsewhere" if is_link else found.unfinished
    elsewhere.mkdir()
    if is_link:
        found.unfinished.symlink_to(elsewhere)
    if not placed:
        data.rename(elsewhere / data.name)
    index.rename(elsewhere / f"{index.stem}.complete")
    left = sorted(elsewhere.iterdir())
    PairRun(tmp_path / "run").checkpointer.restore()
    assert is_whole(str(found.prefix(0))) != is_link
    assert sorted(elsewhere.iterdir()) == (left if is_link else [])


def test_a_checkpoint_that_is_only_half_removed_leaves_no_index(directory, monkeypatch):
    """Else it would be taken for a checkpoint that is damaged."""
    prefix, unlink, removed = touch(directory, 5), Path.unlink, []

    def die(path):
        if removed:
            raise KeyboardInterrupt
        removed.append(path)
        unlink(path)

    monkeypatch.setattr(Path, "unlink", die)
    with pytest.raises(KeyboardInterrupt):
        remove(prefix)
    monkeypatch.undo()
    assert directory.prefixes() == []
    Rotation(directory, 3, 1.0)
    assert list(directory.path.iterdir()) == []


# Directories that TensorFlow, a shell or Python may take for something else.
PATTERNS = ["lr[1]", "a*b", "a?b", "[!x]"]
OTHERS = ["back\\slash", "two words", " ", "größe", "運行", "~", "-x", "a,b=c:d", "{a}"]


@pytest.mark.parametrize("name", [*mostly_slow(PATTERNS, ["lr[1]"]), *mostly_long(OTHERS, [])])
def test_a_directory_may_have_any_name(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    logdir = os.path.join(name, "run")
    run = small_run(logdir)
    save(run, 1)
    assert run.checkpointer.save_if_best(1.0)
    for path in (logdir, f"{logdir}/", os.path.abspath(logdir)):
        fresh = small_run(path, seed=3)
        assert fresh.checkpointer.restore().endswith("ckpt-1")
        assert fresh.trainer.updates == 1
        assert best_checkpoint(path).endswith("ckpt-1")
        for source in (path, os.path.join(path, "checkpoints"), newest_checkpoint(path)):
            small_run(tmp_path / "other").checkpointer.initialize_from(source)
    os.symlink(logdir, "link", target_is_directory=True)
    assert small_run("link").checkpointer.restore() == os.path.join("link", "checkpoints", "ckpt-1")
