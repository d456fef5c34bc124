"""Checkpoints that exist, are kept and are removed, by the names of the files alone."""

import os
from pathlib import Path

import pytest

from seed_rl.runs.layout import CheckpointDirectory
from seed_rl.training.checkpoint import best_checkpoint, newest_checkpoint
from seed_rl.training.checkpoint_files import Rotation, remove, remove_unfinished
from tests.selection import mostly_long, mostly_slow
from tests.training.test_checkpoint import save, small_run

HOUR = 3600


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


def test_the_last_ones_are_kept_and_one_per_hour(tmp_path):
    directory = CheckpointDirectory(tmp_path / "checkpoints")
    touch(directory, 0)
    rotation = Rotation(directory, 2, 1.0)
    for updates in range(1, 11):
        rotation.add(touch(directory, updates, hours=0.3 * updates))
    assert present(directory) == [4, 8, 9, 10]  # At 1.2 and 2.4 hours, and the last two.
    resumed = Rotation(directory, 2, 1.0)
    for updates in range(11, 16):
        resumed.add(touch(directory, updates, hours=0.3 * updates))
    assert present(directory) == [4, 8, 12, 14, 15]


def test_a_checkpoint_may_be_written_again(tmp_path):
    directory = CheckpointDirectory(tmp_path / "checkpoints")
    rotation = Rotation(directory, 2, 1.0)
    for updates in (1, 2, 2, 2):
        rotation.add(touch(directory, updates))
    assert present(directory) == [1, 2]


def test_after_a_step_back_the_newest_are_those_written_last(tmp_path):
    """Not those with the most updates."""
    directory = CheckpointDirectory(tmp_path / "checkpoints")
    for updates in (1, 2, 3):
        touch(directory, updates)
    rotation = Rotation(directory, 2, 1.0)
    for updates in (2, 1):
        rotation.add(touch(directory, updates))
    assert present(directory) == [1, 2]


def test_what_a_killed_process_left_is_removed_and_nothing_else(tmp_path):
    directory = CheckpointDirectory(tmp_path / "checkpoints")
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").touch()
    touch(directory, 5)
    left = directory.path / "ckpt-6_temp"
    left.mkdir()
    (left / "part-00000-of-00001.data-00000-of-00001.tempstate123").touch()
    (directory.path / "ckpt-7_temp").symlink_to(precious)
    (directory.path / "ckpt-8_temp_1234").touch()
    kept = ["ckpt-mine_temp", "my_ckpt-6_temp", "ckpt-9.backup", "ckpt-9.index.old", "notes.txt"]
    for name in kept:
        (directory.path / name).mkdir()
    Rotation(directory, 3, 1.0).add(touch(directory, 9))
    there = {path.name for path in directory.path.iterdir()}
    assert there == {*kept, *(f"ckpt-{n}{end}" for n in (5, 9) for end in (".index", ".data-00000-of-00001"))}
    assert (precious / "file").exists()


# Names beside checkpoint 5, which is complete, and 6, which is not: the files in each directory, None for a
# file; and whether an interrupted save leaves it.
BESIDE = {
    "ckpt-6_temp": (
        ["part-00000-of-00001.data-00000-of-00001.tempstate12", "part-00000-of-00001.index"],
        True,
    ),
    "ckpt-5_temp": (["part-00000-of-00002.data-00000-of-00001"], True),
    "ckpt-7_temp": ([], True),
    "ckpt-6_temp_0123456789abcdef": (["part-00000-of-00001.index"], True),
    "ckpt-6.data-00000-of-00001": (None, True),
    "ckpt-6.data-00001-of-00002": (None, True),
    "ckpt-6.index.tempstate1554779393251144333": (None, True),
    "ckpt-5.index.tempstate1": (None, True),
    # Of people, of other programs, of complete checkpoints, and what is kept because it is damaged.
    "ckpt-8_temp": (["part-00000-of-00001.index", "notes.txt"], False),
    "ckpt-6_template": (["part-00000-of-00001.index"], False),
    "ckpt-6_temporary": (None, False),
    "ckpt-5.data-00000-of-00001": (None, False),
    "ckpt-5.index": (None, False),
    "ckpt-6.data-00000-of-00001.damaged": (None, False),
    "ckpt-6.index.damaged": (None, False),
    "ckpt-6.data-00000-of-00001.bak": (None, False),
    "ckpt-6.data": (None, False),
    "ckpt-6": (["variables"], False),
    "ckpt-best.data-00000-of-00001": (None, False),
    "other-6.data-00000-of-00001": (None, False),
    "old_ckpt-6.index.tempstate1": (None, False),
    "checkpoint": (None, False),
    "replay.bin": (None, False),
    "model.tmp": (None, False),
}


def make(path, inside):
    """A file, or a directory with files of these names."""
    if inside is None:
        path.write_text("x")
    else:
        path.mkdir(parents=True)
        for name in inside:
            (path / name).write_text("x")


@pytest.mark.parametrize("place", ["checkpoints", "checkpoints/best", "checkpoints/kept"])
def test_the_first_save_removes_what_an_interrupted_one_has_left_and_nothing_else(tmp_path, place):
    (tmp_path / "checkpoints/best").mkdir(parents=True)
    (tmp_path / "checkpoints/kept").mkdir()
    for name, (inside, _) in BESIDE.items():
        make(tmp_path / place / name, inside)
    (tmp_path / "checkpoints/best/best.json.tmp").write_text('{"mean')
    save(small_run(tmp_path, keep=9), 9)
    wrong = [name for name, (_, left) in BESIDE.items() if (tmp_path / place / name).exists() == left]
    assert wrong == []
    assert (tmp_path / place / "ckpt-8_temp/notes.txt").exists()
    assert (tmp_path / "checkpoints/ckpt-9.index").exists()
    assert not (tmp_path / "checkpoints/best/best.json.tmp").exists()


def test_a_checkpoint_that_is_only_half_removed_leaves_no_index(tmp_path, monkeypatch):
    """Else it would be taken for a checkpoint that is damaged."""
    directory = CheckpointDirectory(tmp_path / "checkpoints")
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
    remove_unfinished(directory)
    assert list(directory.path.iterdir()) == []


# Directories that TensorFlow, a shell or Python may take for something else.
NAMES = [
    "lr[1]",
    "a*b",
    "a?b",
    "[!x]",
    "back\\slash",
    "two words",
    " ",
    "größe",
    "運行",
    "~",
    "-x",
    "a,b=c:d",
    "{a}",
]


@pytest.mark.parametrize("name", [*mostly_slow(NAMES[:4], ["lr[1]"]), *mostly_long(NAMES[4:], [])])
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
