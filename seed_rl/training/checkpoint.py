"""Checkpoints: written under a temporary name, then renamed; the last, the best and periodic ones are kept.

In checkpoints/ there are `ckpt-UPDATES`, and in checkpoints/best/ the one with the highest mean return,
with a best.json that says what that was.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf

from seed_rl.agents.base import Agent
from seed_rl.files import write_atomically
from seed_rl.training.trainer import Trainer

_DIRECTORY = "checkpoints"
_BEST = "best"
_BEST_FILE = "best.json"


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
        """Writes a checkpoint and returns its path."""
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

        Returns:
          Whether it was.
        """
        directory = Path(self._directory, _BEST)
        best = read_best(self._directory)
        if best is not None and mean_return <= best["mean_return"]:
            return False
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
    """The path of a run's best checkpoint; None if it has none."""
    return _newest_readable(os.path.join(logdir, _DIRECTORY, _BEST))[0]


def read_best(directory: str | Path) -> dict[str, Any] | None:
    """What the best one in a directory of checkpoints reached: `mean_return`, `updates`, `env_frames`."""
    try:
        return json.loads(Path(directory, _BEST, _BEST_FILE).read_text())
    except (OSError, ValueError):
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
