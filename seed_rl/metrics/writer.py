"""Outputs for metrics: one JSON line per period in the run directory, and TensorBoard scalars.

A mounted bucket (Cloud Storage FUSE) stores what is written to a file only when the file is closed. So each
line of metrics opens and closes its file, and TensorBoard's events go to a new file every ten minutes.
"""

import contextlib
import hashlib
import json
import math
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import tensorflow as tf
from tensorboard.plugins.hparams import api as hparams

from seed_rl.files import append_line
from seed_rl.metrics.outputs import Guard
from seed_rl.runs.layout import RunDirectory

# The first period ends so long after the first update. Each later one is as long as all before it, until they
# are as long as --log_period_secs: a run of seconds shows how it learns.
_FIRST_PERIOD_SECS = 1.0


class Periods:
    """Ends of the periods that have metrics: after the first update soon, later every `longest` seconds."""

    def __init__(self, longest: float):
        """The first period is `longest` seconds, unless an update comes earlier."""
        self._longest = self._length = longest
        self._began = self._first = time.monotonic()

    def first_update(self) -> None:
        """Starts the short periods."""
        self._began = self._first = time.monotonic()
        self._length = min(_FIRST_PERIOD_SECS, self._longest)

    def ended(self) -> bool:
        """Whether a period has ended; if so, the next one begins."""
        now = time.monotonic()
        if now - self._began < self._length:
            return False
        self._began, self._length = now, min(self._longest, now - self._first)
        return True


class WandbLog:
    """One Weights & Biases run per run directory; a resumed run continues the same one."""

    def __init__(self, project: str, logdir: str, settings: Mapping[str, Any]):
        """Starts or resumes. Without a network, set WANDB_MODE=offline; `wandb sync` uploads the run later.

        The run is named after its directory, where wandb keeps its files, too; `settings` are nested dicts.
        """
        import wandb

        path, myself = Path(logdir).resolve(), psutil.Process()
        before = set(myself.children(recursive=True))
        run_id = hashlib.sha256(str(path).encode()).hexdigest()[:16]
        where: Any = {"project": project, "name": path.name, "id": run_id, "resume": "allow"}
        self._run = wandb.init(dir=str(path), config=dict(settings), **where)
        self._has_finished = False
        self._service = set(myself.children(recursive=True)) - before

    def write(self, metrics: Mapping[str, Any]) -> None:
        """Logs the metrics of a period; environment frames are the curves' x-axis."""
        self._run.log({k: v for k, v in metrics.items() if v is not None}, step=metrics["env_frames"])

    def close(self) -> None:
        """Sends the remaining metrics."""
        self._run.finish()
        self._has_finished = True

    def end_service(self) -> None:
        """Ends the processes that send the metrics, if they have not exited on their own.

        Otherwise, when Python exits, the package waits indefinitely for a service that does not respond.
        What has not been sent is in the run directory, where `wandb sync` finds it.
        """
        import wandb

        for process in () if self._has_finished else self._service:
            with contextlib.suppress(psutil.Error):
                process.kill()
        with contextlib.suppress(Exception, SystemExit):
            wandb.teardown()


_EVENTS_FILE_SECS = 600.0

# Time limit, each time, for TensorBoard's file system and the Weights & Biases service.
_PATIENCE_SECS = 30.0

_EVENTS, _WANDB = "TensorBoard's events", "Weights & Biases"


class MetricsWriter:
    """Appends to a run's metrics, also when it resumes. An output that fails causes a warning."""

    def __init__(
        self, logdir: str, settings: Mapping[str, Any] | None = None, wandb_project: str | None = None
    ):
        """Writes the settings, nested dicts, into an existing run directory.

        TensorBoard shows them as text and hyperparameters. Metrics go to `wandb_project` as well, if given.
        """
        self._guard = Guard()
        run = RunDirectory(Path(logdir))
        self._path = str(run.metrics)
        self._events = EventsLog(str(run.events))
        if settings:
            self._guard.call(_EVENTS, self._events.write_settings, settings, seconds=_PATIENCE_SECS)
        self._wandb: WandbLog | None = None
        if wandb_project:
            self._wandb = self._guard.call(_WANDB, WandbLog, wandb_project, logdir, settings or {})

    def write(self, metrics: Mapping[str, Any]) -> None:
        """Writes the metrics of a period by plain name; `env_frames` is the step of TensorBoard's curves.

        A metric that is not finite is written as null, because JSON has no NaN. Others keep six decimals or
        six digits, whichever says more.
        """
        values = {name: _plain(value) for name, value in metrics.items()}
        self._guard.call(self._path, append_line, self._path, json.dumps(values))
        self._guard.call(_EVENTS, self._events.write, values, seconds=_PATIENCE_SECS)
        if self._wandb is not None:
            self._guard.call(_WANDB, self._wandb.write, values, seconds=_PATIENCE_SECS)

    def close(self) -> None:
        """Flushes and closes the files; waits only for a limited time."""
        self._guard.call(_EVENTS, self._events.close, seconds=_PATIENCE_SECS)
        if self._wandb is not None:
            self._guard.call(_WANDB, self._wandb.close, seconds=_PATIENCE_SECS)
            self._guard.call(f"The end of {_WANDB}", self._wandb.end_service, seconds=_PATIENCE_SECS)


class EventsLog:
    """TensorBoard's events. After a failure, the next write opens a new file."""

    def __init__(self, directory: str):
        """Prepares without touching any file."""
        self._directory = directory
        self._writer: tf.summary.SummaryWriter | None = None
        self._opened_at = 0.0

    def write(self, values: Mapping[str, int | float | None]) -> None:
        """Writes and flushes scalars; `env_frames` is their step."""
        if time.monotonic() - self._opened_at >= _EVENTS_FILE_SECS:
            self.close()
        with self._open(int(values["env_frames"] or 0)):
            for name, value in values.items():
                if value is not None and name != "env_frames":
                    tf.summary.scalar(name, np.float32(value))

    def write_settings(self, settings: Mapping[str, Any]) -> None:
        """Writes and flushes nested settings, as text and as hyperparameters."""
        with self._open(0):
            text = json.dumps(settings, indent=2, sort_keys=True, default=str)
            tf.summary.text("settings", "\n".join(f"    {line}" for line in text.splitlines()))
            hparams.hparams(dict(_flat(settings)))

    def close(self) -> None:
        """Closes the file."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()

    @contextlib.contextmanager
    def _open(self, step: int) -> Iterator[None]:
        if self._writer is None:
            self._writer = tf.summary.create_file_writer(self._directory)
            self._opened_at = time.monotonic()
        try:
            # Python's own numbers would stay in TensorFlow's cache of scalars until the process ends.
            with self._writer.as_default(step=tf.constant(np.int64(step))):
                yield
            self._writer.flush()
        except BaseException:
            self._writer = None
            raise


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Flattens nested settings to names and values that TensorBoard's hyperparameters support."""
    for name, value in settings.items():
        path = f"{prefix}/{name}" if prefix else name
        if isinstance(value, Mapping):
            yield from _flat(value, path)
        else:
            yield path, value if isinstance(value, (bool, int, float, str)) else str(value)


def _plain(value: Any) -> int | float | None:
    if isinstance(value, int):
        return value
    number = float(value)
    if not math.isfinite(number):
        return None
    return round(number, 6) if abs(number) >= 0.1 else float(f"{number:.6g}")
