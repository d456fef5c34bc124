"""Checkpoints: written under a temporary name and then renamed; the last and periodic ones are kept."""

import os

import tensorflow as tf

from seed_rl.agents.base import Agent
from seed_rl.training.trainer import Trainer

_DIRECTORY = "checkpoints"


class Progress(tf.Module):
    """The counters of a run that a resumed run goes on from."""

    def __init__(self) -> None:
        super().__init__(name="progress")
        self.env_frames = tf.Variable(0, dtype=tf.int64, trainable=False)
        self.agent_steps = tf.Variable(0, dtype=tf.int64, trainable=False)
        self.episodes = tf.Variable(0, dtype=tf.int64, trainable=False)
        self.seconds = tf.Variable(0.0, dtype=tf.float64, trainable=False)


class Checkpointer:
    """Saves and restores agent, optimizer and counters. TensorFlow's manager writes and rotates the files."""

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
        """Goes on from the run's last checkpoint; returns its path, None if there is none.

        Raises:
          ValueError: it is of another network or optimizer.
        """
        path = tf.train.latest_checkpoint(self._directory)
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
        path = checkpoint
        if os.path.isdir(checkpoint):
            path = tf.train.latest_checkpoint(checkpoint) or tf.train.latest_checkpoint(
                os.path.join(checkpoint, _DIRECTORY)
            )
        if path is None or not tf.io.gfile.exists(f"{path}.index"):
            raise ValueError(
                f"--init_checkpoint={checkpoint} holds no checkpoint; name one, or a run directory."
            )
        agent_only = tf.train.Checkpoint(agent=self._agent)
        _read(path, lambda: agent_only.restore(path).expect_partial().assert_existing_objects_matched())

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


def _read(path: str, restore) -> None:
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
