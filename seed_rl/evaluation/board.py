"""Evaluation results in TensorBoard, next to the run's own curves."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from seed_rl.runs.layout import RunDirectory


def write_board(
    logdir: Path, env_frames: int, summary: Mapping[str, Any], picture: np.ndarray | None
) -> None:
    """Adds an evaluation to the TensorBoard events of a run.

    Args:
      logdir: the run directory.
      env_frames: environment frames of training; TensorBoard's x axis.
      summary: the figures by name.
      picture: a picture of gameplay, uint8 `[height, width, 3]`; None if there is none.

    Raises:
      OSError: they cannot be written.
    """
    try:
        writer = tf.summary.create_file_writer(str(RunDirectory(logdir).evaluation_events))
        with writer.as_default(step=env_frames):
            for name, value in summary.items():
                if value is not None:
                    tf.summary.scalar(f"evaluation/{name}", value)
            if picture is not None:
                tf.summary.image("evaluation/gameplay", picture[np.newaxis])
        writer.close()
    except tf.errors.OpError as error:
        raise OSError(error.message) from error
