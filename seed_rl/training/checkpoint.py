"""Checkpoints: written under a temporary name, then renamed; the last, the best and periodic ones are kept.

In checkpoints/ there are `ckpt-UPDATES`, and in checkpoints/best/ the one with the highest mean return,
with a best.json that says what that was.
"""

import contextlib
import json
import math
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import tensorflow as tf

from seed_rl.agents.base import Agent
from seed_rl.files import write_atomically
from seed_rl.training.trainer import Trainer

_DIRECTORY = "checkpoints"
_BEST = "best"
_BEST_FILE = "best.json"

# What a full disk, and other trouble with the file system, is raised as.
WRITE_ERRORS = (OSError, tf.errors.OpError)


class Json(tf.train.experimental.PythonState):
    """A JSON value in a checkpoint. `value` is written when a checkpoint is, and read when it is restored."""

    def __init__(self, value: Any):
        super().__init__()
        self.value = value

    def serialize(self) -> str:
        """To a string tensor."""
        return json.dumps(self.value)

    def deserialize(self, string_value: Any) -> None:
        """From a string tensor."""
        self.value = json.loads(string_value)


class Progress(tf.Module):
    """What a resumed run goes on from, besides agent and optimizer: counters and recent episodes."""

    def __init__(self) -> None:
        super().__init__(name="progress")
        self.env_frames = tf.Variable(0, dtype=tf.int64, trainable=False)
        self.agent_steps = tf.Variable(0, dtype=tf.int64, trainable=False)
        self.episodes = tf.Variable(0, dtype=tf.int64, trainable=False)
        self.seconds = tf.Variable(0.0, dtype=tf.float64, trainable=False)
        self.recent = Json({})


class Checkpointer:
    """Saves and restores agent, optimizer and progress. TensorFlow's manager writes and rotates the files.

    Attributes:
      progress: to be filled before `save`; filled by `restore`.
      skipped: checkpoints that `restore` could not read, newest first.
    """

    def __init__(self, logdir: str, agent: Agent, trainer: Trainer, keep: int, keep_every_hours: float):
        """Prepares; touches no file.

        Args:
          logdir: directory of the run.
          agent: all of its variables are saved.
          trainer: its optimizer and iteration are saved.
          keep: how many of the last checkpoints stay.
          keep_every_hours: one more per this many hours stays for good.
        """
        self.progress = Progress()
        self.skipped: list[str] = []
        self._agent, self._trainer = agent, trainer
        self._directory = os.path.join(logdir, _DIRECTORY)
        self._keep, self._keep_every_hours = keep, keep_every_hours
        self._checkpoint = tf.train.Checkpoint(
            agent=agent, optimizer=trainer.optimizer, iteration=trainer.iteration, progress=self.progress
        )
        self._manager: tf.train.CheckpointManager | None = None

    @property
    def experience_path(self) -> str:
        """The file beside the checkpoints for what replay holds; there is one, of the last checkpoint."""
        return os.path.join(self._directory, "replay.bin")

    def restore(self) -> str | None:
        """Goes on from the run's last checkpoint that can be read; returns its path, None if there is none.

        Raises:
          ValueError: it is of another network or optimizer, or there are checkpoints and none can be read.
        """
        path, self.skipped = _newest_readable(self._directory)
        if path is not None:
            _read(path, lambda: self._checkpoint.restore(path).assert_consumed())
            self._trainer.restored()
        return path

    def initialise_from(self, checkpoint: str) -> None:
        """Takes the agent's variables, and nothing else, from a checkpoint of another run.

        Args:
          checkpoint: a path prefix, a directory of checkpoints or a run directory.

        Raises:
          ValueError: there is none, or it is of another network.
        """
        path: str | None = checkpoint
        if os.path.isdir(checkpoint):
            path = _newest_readable(checkpoint)[0] or newest_checkpoint(checkpoint)
        if path is None or not tf.io.gfile.exists(f"{path}.index"):
            raise ValueError(
                f"--init_checkpoint={checkpoint} holds no checkpoint; name one, or a run directory."
            )
        restore_agent(self._agent, path)

    def save(self) -> str:
        """Writes a checkpoint and returns its path. If that fails, nothing incomplete is left.

        Raises:
          WRITE_ERRORS: it cannot be written completely.
        """
        with _complete_or_removed(self._directory, self._trainer.updates):
            if self._manager is None:
                self._manager = tf.train.CheckpointManager(
                    self._checkpoint,
                    self._directory,
                    max_to_keep=self._keep,
                    keep_checkpoint_every_n_hours=self._keep_every_hours,
                )
            return self._manager.save(checkpoint_number=self._trainer.updates)

    def save_if_best(self, mean_return: float) -> bool:
        """Writes a checkpoint in place of the best one so far, if the mean return is higher than its.

        A mean return that is not finite is never the best.

        Returns:
          Whether it was.

        Raises:
          WRITE_ERRORS: it cannot be written completely; the best one so far stays.
        """
        directory = Path(self._directory, _BEST)
        best = read_best(self._directory)
        if not math.isfinite(mean_return) or (best is not None and mean_return <= best["mean_return"]):
            return False
        with _complete_or_removed(str(directory), self._trainer.updates):
            manager = tf.train.CheckpointManager(self._checkpoint, str(directory), max_to_keep=1)
            manager.save(checkpoint_number=self._trainer.updates)
        figures = {
            "mean_return": mean_return,
            "updates": self._trainer.updates,
            "env_frames": int(self.progress.env_frames.numpy()),
        }
        write_atomically(directory / _BEST_FILE, json.dumps(figures) + "\n")
        return True


def newest_checkpoint(logdir: str | Path) -> str | None:
    """The path of a run's last checkpoint that can be read; None if it has none.

    Raises:
      ValueError: there are checkpoints, and none can be read.
    """
    return _newest_readable(os.path.join(logdir, _DIRECTORY))[0]


def best_checkpoint(logdir: str | Path) -> str | None:
    """The path of a run's best checkpoint; None if it has none.

    One whose mean return was recorded as not finite is not the best of anything.
    """
    directory = os.path.join(logdir, _DIRECTORY)
    if os.path.exists(os.path.join(directory, _BEST, _BEST_FILE)) and read_best(directory) is None:
        return None
    return _newest_readable(os.path.join(directory, _BEST))[0]


def read_best(directory: str | Path) -> dict[str, Any] | None:
    """What the best one in a directory of checkpoints reached: `mean_return`, `updates`, `env_frames`.

    None if there is none, or its record cannot be read or has a mean return that is not finite.
    """
    try:
        best = json.loads(Path(directory, _BEST, _BEST_FILE).read_text())
        return best if math.isfinite(best["mean_return"]) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def restore_agent(agent: Agent, path: str) -> Progress:
    """Reads the agent's variables, and nothing else of a run, from a checkpoint.

    Args:
      agent: its variables are overwritten.
      path: prefix of the checkpoint's files.

    Returns:
      How far the run was.

    Raises:
      ValueError: the checkpoint is of another network.
    """
    progress = Progress()
    of_agent = tf.train.Checkpoint(agent=agent)
    _read(path, lambda: of_agent.restore(path).expect_partial().assert_existing_objects_matched())
    tf.train.Checkpoint(progress=progress).restore(path).expect_partial()
    return progress


@contextlib.contextmanager
def _complete_or_removed(directory: str, updates: int) -> Iterator[None]:
    """Around the writing of a checkpoint: an incomplete one would be newer than the last that can be read."""
    try:
        yield
    except WRITE_ERRORS:
        path = os.path.join(directory, f"ckpt-{updates}")
        name = "_temp" if _is_whole(path) else ""
        for leftover in Path(directory).glob(f"ckpt-{updates}[._]*"):
            if name in leftover.name:
                with contextlib.suppress(OSError):
                    shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
        raise


def _newest_readable(directory: str) -> tuple[str | None, list[str]]:
    """The newest checkpoint that is whole, and the newer ones that are not."""
    skipped: list[str] = []
    for path in _all(directory):
        if _is_whole(path):
            return path, skipped
        skipped.append(path)
    if skipped:
        raise ValueError(
            f"None of the {len(skipped)} checkpoints in {directory} can be read; move them away to start "
            "anew."
        )
    return None, []


def _all(directory: str) -> list[str]:
    """Path prefixes of the checkpoints in a directory, that of the most updates first."""
    numbers = [path.stem.removeprefix("ckpt-") for path in Path(directory).glob("ckpt-*.index")]
    newest_first = sorted(filter(str.isdigit, numbers), key=int, reverse=True)
    return [os.path.join(directory, f"ckpt-{number}") for number in newest_first]


def _is_whole(path: str) -> bool:
    """Whether all values can be read; each has a checksum."""
    try:
        reader = tf.train.load_checkpoint(path)
        for name in reader.get_variable_to_shape_map():
            reader.get_tensor(name)
    except (tf.errors.OpError, ValueError, IndexError, RuntimeError):  # As TensorFlow maps its errors.
        return False
    return True


def _read(path: str, restore: Callable[[], Any]) -> None:
    try:
        restore()
    except (ValueError, AssertionError, tf.errors.OpError) as error:
        # Else TensorFlow names each value that it did not restore, at the exit and so after our sentence.
        tf.get_logger().setLevel("ERROR")
        reason = str(error).strip().splitlines()[0][:200]
        raise ValueError(
            f"The checkpoint {path} is of another network or optimizer; use the flags that it was trained "
            f"with, or another --logdir ({reason})."
        ) from error
