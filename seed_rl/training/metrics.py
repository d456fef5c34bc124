"""Where figures go: one JSON line per period in LOGDIR/metrics.jsonl, and TensorBoard scalars."""

import json
import math
import os
from collections.abc import Mapping
from typing import Any

import tensorflow as tf


class MetricsWriter:
    """Appends to a run's metrics; a resumed run goes on in the same file."""

    def __init__(self, logdir: str):
        """Opens the files in an existing directory."""
        path = os.path.join(logdir, "metrics.jsonl")
        self._file = open(path, "a", buffering=1, encoding="utf-8")  # noqa: SIM115 (closed by close)
        self._events = tf.summary.create_file_writer(os.path.join(logdir, "tensorboard"))

    def write(self, figures: Mapping[str, Any]) -> None:
        """Writes the figures of a period by plain name; `env_frames` is the step of TensorBoard's curves.

        A figure that is not finite is written as null, because JSON has no NaN.
        """
        values = {name: _plain(value) for name, value in figures.items()}
        self._file.write(json.dumps(values) + "\n")
        with self._events.as_default(step=int(values["env_frames"])):
            for name, value in values.items():
                if value is not None and name != "env_frames":
                    tf.summary.scalar(name, value)
        self._events.flush()

    def close(self) -> None:
        """Flushes and closes the files."""
        self._file.close()
        self._events.close()


def _plain(value: Any) -> int | float | None:
    number = value if isinstance(value, int) else round(float(value), 6)
    return number if math.isfinite(number) else None
