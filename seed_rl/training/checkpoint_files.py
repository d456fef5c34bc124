"""The files of checkpoints: which can be read, which are kept, and how TensorFlow finds them.

What is there is known from the names of the files alone. TensorFlow's own list of checkpoints is neither
written nor read: it may be damaged, and it may name files in other directories, which would be deleted.
"""

import contextlib
import os
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import tensorflow as tf

from seed_rl.runs.layout import CHECKPOINT_NAME, CheckpointDirectory

# Errors of a full disk and other file system problems.
WRITE_ERRORS = (OSError, tf.errors.OpError)

# Errors of reading a damaged checkpoint: TensorFlow maps its own to these.
_READ_ERRORS = (tf.errors.OpError, ValueError, IndexError, RuntimeError)

# TensorFlow reads a path with one of these as a pattern.
_PATTERN = frozenset("*?[]\\")


class Rotation:
    """Keeps the last `keep` checkpoints of a directory, and one per `keep_every_hours` for good.

    Checkpoints that are older than the last `keep` when a session begins are those kept for good.
    """

    def __init__(self, directory: CheckpointDirectory, keep: int, keep_every_hours: float):
        """Removes what a process that was killed while it saved has left in the directory, if that exists."""
        self._keep, self._every_secs = keep, 3600.0 * keep_every_hours
        remove_unfinished(directory)
        newest_first = directory.prefixes()
        self._recent = newest_first[:keep][::-1]
        reference = [*newest_first[keep : keep + 1], *self._recent]
        self._last_kept = _time(reference[0]) if reference else time.time()

    def add(self, written: Path) -> None:
        """Removes the checkpoints that a new one makes superfluous, oldest first."""
        self._recent = [prefix for prefix in self._recent if prefix != written] + [written]
        while len(self._recent) > self._keep:
            oldest = self._recent.pop(0)
            if _time(oldest) - self._last_kept >= self._every_secs:
                self._last_kept = _time(oldest)
            else:
                remove(oldest)


def newest_readable(directory: CheckpointDirectory) -> tuple[str | None, list[str]]:
    """The newest complete checkpoint, and any newer ones that are damaged.

    Raises:
      ValueError: there are checkpoints, but all of them are damaged.
    """
    damaged: list[str] = []
    for path in map(str, directory.prefixes()):
        if is_whole(path):
            return path, damaged
        damaged.append(path)
    if damaged:
        raise ValueError(
            f"None of the {len(damaged)} checkpoints in {directory.path} can be read; move them away to "
            "start from scratch."
        )
    return None, []


def is_whole(path: str) -> bool:
    """Whether all values can be read; each has a checksum."""
    try:
        with found_by_tensorflow(path) as plain:
            reader = tf.train.load_checkpoint(plain)
            for name in reader.get_variable_to_shape_map():
                reader.get_tensor(name)
    except _READ_ERRORS:
        return False
    return True


@contextlib.contextmanager
def found_by_tensorflow(path: str) -> Iterator[str]:
    """A path by which TensorFlow can read a checkpoint: it takes brackets and stars for a pattern.

    If the checkpoint's prefix has such characters, the result leads through a symbolic link.
    """
    if _PATTERN.isdisjoint(path):
        yield path
        return
    directory, name = os.path.split(os.path.abspath(path))
    with tempfile.TemporaryDirectory(prefix="seed_rl_") as links:
        link = os.path.join(links, "link")
        os.symlink(directory, link)
        yield os.path.join(link, name)


def files_of(prefix: Path) -> list[Path]:
    """The files of a checkpoint, the index last."""
    pattern = re.compile(rf"{re.escape(prefix.name)}\.(data-\d+-of-\d+|index)")
    return sorted(path for path in prefix.parent.glob(f"{prefix.name}.*") if pattern.fullmatch(path.name))


def remove(prefix: Path) -> None:
    """Removes the files of a checkpoint, the index first. One that is kept for a while longer is no harm."""
    for path in reversed(files_of(prefix)):
        with contextlib.suppress(OSError):
            path.unlink()


def remove_unfinished(directory: CheckpointDirectory) -> None:
    """Removes what an interrupted save has left; no other process may be saving there.

    That is what TensorFlow writes first, under temporary names, and data without their index.
    """
    ours = re.compile(rf"({CHECKPOINT_NAME}-\d+)(_temp(_[0-9a-f]+)?|\.index\.tempstate\d+|\.data-\d+-of-\d+)")
    whole = {prefix.name for prefix in directory.prefixes()}
    for path in directory.path.glob(f"{CHECKPOINT_NAME}-*"):
        found = ours.fullmatch(path.name)
        if not found or (found[2].startswith(".data") and found[1] in whole):
            continue
        is_directory = path.is_dir() and not path.is_symlink()
        with contextlib.suppress(OSError):
            for file in path.glob("part-*") if is_directory else [path]:
                file.unlink()
            if is_directory:
                path.rmdir()


def _time(prefix: Path) -> float:
    """When a checkpoint was written, in seconds; 0 if it is gone."""
    times = [path.stat().st_mtime for path in files_of(prefix) if path.exists()]
    return times[-1] if times else 0.0
