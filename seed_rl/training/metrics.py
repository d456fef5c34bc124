"""Where figures go: one JSON line per period in LOGDIR/metrics.jsonl, and TensorBoard scalars.

A mounted bucket (Cloud Storage FUSE) keeps what is written to a file only once the file is closed. So each
line of metrics opens and closes its file, and TensorBoard's events go on in another file every ten minutes.
"""

import json
import math
import os
import time
from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf
from tensorboard.plugins.hparams import api as hparams

from seed_rl.training.wandb_log import WandbLog

_EVENTS_FILE_SECS = 600.0


class MetricsWriter:
    """Appends to a run's metrics; a resumed run goes on in the same file."""

    def __init__(
        self, logdir: str, settings: Mapping[str, Any] | None = None, wandb_project: str | None = None
    ):
        """Writes the settings into an existing directory.

        Args:
          logdir: the run directory.
          settings: of the run, a nest of dicts; TensorBoard shows them as text and as hyperparameters.
          wandb_project: where on Weights & Biases the figures go as well; None for nowhere.
        """
        self._path = os.path.join(logdir, "metrics.jsonl")
        self._events_directory = os.path.join(logdir, "tensorboard")
        self._open_events()
        if settings:
            self._write_settings(settings)
        self._wandb = WandbLog(wandb_project, logdir, settings or {}) if wandb_project else None

    def write(self, figures: Mapping[str, Any]) -> None:
        """Writes the figures of a period by plain name; `env_frames` is the step of TensorBoard's curves.

        A figure that is not finite is written as null, because JSON has no NaN.
        """
        values = {name: _plain(value) for name, value in figures.items()}
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps(values) + "\n")
        if time.monotonic() - self._opened_at >= _EVENTS_FILE_SECS:
            self._events.close()
            self._open_events()
        with self._events.as_default(step=int(values["env_frames"])):
            for name, value in values.items():
                if value is not None and name != "env_frames":
                    tf.summary.scalar(name, value)
        self._events.flush()
        if self._wandb is not None:
            self._wandb.write(values)

    def _open_events(self) -> None:
        self._events = tf.summary.create_file_writer(self._events_directory)
        self._opened_at = time.monotonic()

    def _write_settings(self, settings: Mapping[str, Any]) -> None:
        with self._events.as_default(step=0):
            text = json.dumps(settings, indent=2, sort_keys=True, default=str)
            tf.summary.text("settings", "\n".join(f"    {line}" for line in text.splitlines()))
            hparams.hparams(dict(_flat(settings)))
        self._events.flush()

    def close(self) -> None:
        """Flushes and closes the files."""
        self._events.close()
        if self._wandb is not None:
            self._wandb.close()


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Names and values of a nest, as TensorBoard's hyperparameters can hold them."""
    for name, value in settings.items():
        path = f"{prefix}/{name}" if prefix else name
        if isinstance(value, Mapping):
            yield from _flat(value, path)
        else:
            yield path, value if isinstance(value, (bool, int, float, str)) else str(value)


def _plain(value: Any) -> int | float | None:
    number = value if isinstance(value, int) else round(float(value), 6)
    return number if math.isfinite(number) else None
