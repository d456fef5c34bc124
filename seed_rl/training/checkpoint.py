"""Checkpoints: written in a temporary directory, then renamed; the last, the best and periodic ones are kept.

The best is the one with the highest mean return; a record beside it names it and contains that return.

Checkpoints are found by the names of their files alone (`runs.layout`). TensorFlow's own list of them is
neither written nor read: it may be damaged, or name files in other directories, which would be deleted.
"""

import contextlib
import json
import math
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import tensorflow as tf

from seed_rl.algorithms.base import LOSS, Algorithm
from seed_rl.devices.publisher import variables_of
from seed_rl.files import read_json, set_aside, write_atomically
from seed_rl.messages import reason
from seed_rl.runs.layout import CHECKPOINT_INDEX, CHECKPOINT_NAME, CheckpointDirectory, RunDirectory
from seed_rl.training.trainer import Trainer

# Errors of a full disk and other file system problems.
WRITE_ERRORS = (OSError, tf.errors.OpError)

# Ending of the index in `unfinished` of a checkpoint that only has to be moved.
_COMPLETE = ".complete"

# Errors of reading a damaged checkpoint: TensorFlow maps its own to these.
_READ_ERRORS = (tf.errors.OpError, ValueError, IndexError, RuntimeError)

# TensorFlow reads a path with one of these as a pattern.
_PATTERN = frozenset("*?[]\\")


class Json(tf.train.experimental.PythonState):
    """A JSON value in a checkpoint. `value` is saved with the checkpoint, and set when it is restored."""

    def __init__(self, value: Any):
        super().__init__()
        self.value = value

    def serialize(self) -> str:
        """The string that TensorFlow saves."""
        return json.dumps(self.value)

    def deserialize(self, string_value: Any) -> None:
        """Sets the value from the string that TensorFlow saved."""
        self.value = json.loads(string_value)


class Progress(tf.Module):
    """Progress of a run besides its algorithm and optimizers: counters and recent episodes."""

    def __init__(self) -> None:
        super().__init__(name="progress")
        self.env_frames = tf.Variable(0, dtype=tf.int64, trainable=False)
        self.agent_steps = tf.Variable(0, dtype=tf.int64, trainable=False)
        self.episodes = tf.Variable(0, dtype=tf.int64, trainable=False)
        self.seconds = tf.Variable(0.0, dtype=tf.float64, trainable=False)
        self.recent = Json({})


class Checkpointer:
    """Saves and restores algorithm, optimizers and progress.

    Attributes:
      progress: must be set before `save`; `restore` sets it.
      skipped: damaged checkpoints that `restore` has renamed, newest first.
    """

    def __init__(
        self,
        logdir: str,
        algorithm: Algorithm,
        trainer: Trainer,
        keep: int,
        keep_every_hours: float,
        league: tf.Module | None = None,
    ):
        """Touches no file; `Rotation` says which checkpoints are kept. `league` may be missing in those."""
        self.progress = Progress()
        self.skipped: list[str] = []
        self._algorithm, self._trainer = algorithm, trainer
        self._run = RunDirectory(Path(logdir))
        self._keep, self._keep_every_hours = keep, keep_every_hours
        # Checkpoints of earlier versions use these names.
        optimizers = {
            "optimizer" if name == LOSS else f"optimizer_{name}": optimizer
            for name, optimizer in trainer.optimizers.items()
        }
        of_run = dict(agent=algorithm, iteration=trainer.iteration, progress=self.progress, **optimizers)
        self._of_run = tf.train.Checkpoint(**of_run)
        self._checkpoint = tf.train.Checkpoint(**of_run, league=league) if league else self._of_run
        self._league = league
        self._rotation: Rotation | None = None

    def restore(self) -> str | None:
        """Restores the run's last readable checkpoint; returns its path, or None if there is none.

        Newer ones, which are damaged, get other names: the run may never reach their updates again.

        Raises:
          ValueError: it belongs to another network or optimizer, or there are checkpoints but none is
            readable.
        """
        for directory in (self._run.checkpoints, self._run.best_checkpoints, self._run.kept_checkpoints):
            with contextlib.suppress(OSError):
                _place(directory)
        path, damaged = newest_readable(self._run.checkpoints)
        if path is not None:
            _read(path, self._restore)
            self._trainer.restored()
        with contextlib.suppress(OSError):  # They are skipped again the next time.
            for file in (file for prefix in damaged for file in files_of(Path(prefix))):
                set_aside(file)
        self.skipped = damaged
        return path

    def _restore(self, path: str) -> None:
        status = self._of_run.restore(path)
        try:
            status.assert_consumed()
        except AssertionError:
            names = tf.train.load_checkpoint(path).get_variable_to_shape_map()
            if not any(name.startswith("league/") for name in names):
                raise
            status.expect_partial().assert_existing_objects_matched()
            if self._league:
                tf.train.Checkpoint(league=self._league).restore(path).expect_partial()

    @property
    def variables(self) -> list[Any]:
        """All variables that are saved, in the same order whether or not a checkpoint was restored."""
        owners = (self._algorithm, *self._trainer.optimizers.values(), self.progress)
        return [self._trainer.iteration, *(variable for owner in owners for variable in variables_of(owner))]

    def initialize_from(self, checkpoint: str) -> str:
        """Loads the algorithm's variables, and nothing else, from a checkpoint of another run.

        It is a path prefix, a directory of checkpoints or a run directory; the path prefix is returned.

        Raises:
          ValueError: there is none, or it belongs to another network.
        """
        path: str | None = checkpoint
        if os.path.isdir(checkpoint):
            directory = CheckpointDirectory(Path(checkpoint))
            path = newest_readable(directory)[0] or newest_checkpoint(checkpoint)
        if path is None or not tf.io.gfile.exists(f"{path}{CHECKPOINT_INDEX}"):
            raise ValueError(
                f"--init_checkpoint={checkpoint} holds no checkpoint; name one, or a run directory."
            )
        restore_algorithm(self._algorithm, path)
        return path

    def save(self) -> str:
        """Writes a checkpoint and returns its path. If that fails, nothing incomplete is left.

        Raises:
          WRITE_ERRORS: the checkpoint cannot be written completely.
        """
        if self._rotation is None:
            self._rotation = Rotation(self._run.checkpoints, self._keep, self._keep_every_hours)
        path = self._write(self._run.checkpoints)
        self._rotation.add(path)
        return str(path)

    def keep(self) -> None:
        """Writes a checkpoint that is kept for good.

        Raises:
          WRITE_ERRORS: the checkpoint cannot be written completely.
        """
        self._write(self._run.kept_checkpoints)

    def save_if_best(self, mean_return: float) -> bool:
        """Writes a checkpoint as the best one, if its mean return is higher than that of the best so far.

        Returns whether it was written. A mean return that is not finite is never the best.

        Raises:
          WRITE_ERRORS: the checkpoint cannot be written completely; the best one so far stays.
        """
        best, directory = read_best(self._run.path), self._run.best_checkpoints
        if not math.isfinite(mean_return) or (best is not None and mean_return <= best["mean_return"]):
            return False
        path = self._write(directory)
        figures = {
            "mean_return": mean_return,
            "updates": self._trainer.updates,
            "env_frames": int(self.progress.env_frames.numpy()),
        }
        write_atomically(self._run.best_record, json.dumps(figures) + "\n")
        for other in directory.prefixes():  # Only now: until then, the record names another one.
            if other != path:
                remove(other)
        return True

    def _write(self, directory: CheckpointDirectory) -> Path:
        """Writes a checkpoint in `unfinished`, then gives its files their names."""
        path, unfinished = directory.prefix(self._trainer.updates), directory.unfinished
        shutil.rmtree(unfinished, ignore_errors=True)  # Of a process that was killed while it saved.
        try:
            unfinished.mkdir(parents=True)
            self._checkpoint.save_counter.assign_add(1)  # Part of every checkpoint of earlier versions.
            self._checkpoint.write(str(unfinished / path.name))
            (unfinished / f"{path.name}{CHECKPOINT_INDEX}").rename(unfinished / f"{path.name}{_COMPLETE}")
            _place(directory)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
        return path


def _place(directory: CheckpointDirectory) -> None:
    """Gives the files of a complete checkpoint in `unfinished` their names, the index last.

    Until then that index has another name, so the next process goes on where this one is killed. OSError.
    """
    for index in () if directory.unfinished.is_symlink() else directory.unfinished.glob(f"*{_COMPLETE}"):
        for data in files_of(index.with_suffix("")):
            data.replace(directory.path / data.name)
        index.replace(directory.path / f"{index.stem}{CHECKPOINT_INDEX}")


class Rotation:
    """Keeps the last `keep` checkpoints of a directory, and one per `keep_every_hours` for good.

    Checkpoints that are older than the last `keep` when a session begins are those kept for good.
    """

    def __init__(self, directory: CheckpointDirectory, keep: int, keep_every_hours: float):
        """Starts a session; the directory may not exist."""
        self._keep, self._every_secs = keep, 3600.0 * keep_every_hours
        newest_first = directory.prefixes()
        for data in directory.path.glob(f"{CHECKPOINT_NAME}-[0-9]*.data-?????-of-?????"):
            if data.with_suffix("") not in newest_first:  # A process was killed before it wrote the index.
                with contextlib.suppress(OSError):
                    data.unlink()
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


def newest_checkpoint(logdir: str | Path) -> str | None:
    """The path of a run's last readable checkpoint; None if it has none.

    Raises:
      ValueError: there are checkpoints, but none is readable.
    """
    return newest_readable(RunDirectory(Path(logdir)).checkpoints)[0]


def best_checkpoint(logdir: str | Path) -> str | None:
    """The path of a run's best checkpoint, which its record names; None if it has none.

    A checkpoint whose recorded mean return is not finite does not count.

    Raises:
      ValueError: the checkpoint is damaged.
    """
    run, best = RunDirectory(Path(logdir)), read_best(logdir)
    if best is None:
        return None
    path = str(run.best_checkpoints.prefix(best["updates"]))
    if not is_whole(path):
        raise ValueError(f"The best checkpoint {path} is missing or damaged; use the last one instead.")
    return path


def read_best(logdir: str | Path) -> dict[str, Any] | None:
    """The record of a run's best checkpoint: `mean_return`, `updates`, `env_frames`.

    None if there is none, or its record cannot be read or has a mean return that is not finite.
    """
    try:
        best = read_json(RunDirectory(Path(logdir)).best_record)
        return best if math.isfinite(best["mean_return"]) and type(best["updates"]) is int else None
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return None


def restore_algorithm(algorithm: Algorithm, path: str) -> Progress:
    """Restores the algorithm's variables, and nothing else; returns the run's progress at that checkpoint.

    Raises:
      ValueError: the checkpoint belongs to another network.
    """
    progress = Progress()
    of_agent = tf.train.Checkpoint(agent=algorithm)
    of_progress = tf.train.Checkpoint(progress=progress)
    _read(path, lambda plain: of_agent.restore(plain).expect_partial().assert_existing_objects_matched())
    _read(path, lambda plain: of_progress.restore(plain).expect_partial())
    return progress


def _read(path: str, restore: Callable[[str], Any]) -> None:
    """Calls `restore` with a path by which TensorFlow finds the checkpoint."""
    try:
        with found_by_tensorflow(path) as plain:
            restore(plain)
    except (ValueError, AssertionError, tf.errors.OpError) as error:
        # Otherwise TensorFlow lists all values that it did not restore at exit, and so after our message.
        tf.get_logger().setLevel("ERROR")
        raise ValueError(
            f"The checkpoint {path} belongs to another network or optimizer; use the flags that it was "
            f"trained with, or another --logdir ({reason(error)})."
        ) from error


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


def _time(prefix: Path) -> float:
    """When a checkpoint was written, in seconds; 0 if it is gone."""
    times = [path.stat().st_mtime for path in files_of(prefix) if path.exists()]
    return times[-1] if times else 0.0
