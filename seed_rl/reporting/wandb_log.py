"""Logs the figures of a run to Weights & Biases (extra [wandb])."""

import contextlib
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil


class WandbLog:
    """One Weights & Biases run per run directory; a resumed run continues the same one."""

    def __init__(self, project: str, logdir: str, settings: Mapping[str, Any]):
        """Starts or resumes. Without a network, set WANDB_MODE=offline; `wandb sync` uploads the run later.

        Args:
          project: name of the Weights & Biases project.
          logdir: the run directory, which the run is named after; wandb keeps its files there, too.
          settings: settings of the run, nested dicts.
        """
        import wandb

        path = Path(logdir).resolve()
        before = set(_children())
        self._run = wandb.init(
            project=project,
            name=path.name,
            id=hashlib.sha256(str(path).encode()).hexdigest()[:16],
            resume="allow",
            dir=str(path),
            config=dict(settings),
        )
        self._has_finished = False
        self._service = [process for process in _children() if process not in before]

    def write(self, figures: Mapping[str, Any]) -> None:
        """Logs the figures of a period; environment frames are the curves' x-axis."""
        self._run.log({k: v for k, v in figures.items() if v is not None}, step=figures["env_frames"])

    def close(self) -> None:
        """Sends the remaining figures."""
        self._run.finish()
        self._has_finished = True

    def end_service(self) -> None:
        """Ends the processes that send the figures, if they have not exited on their own.

        Otherwise, when Python exits, the package waits indefinitely for a service that does not respond.
        What has not been sent is in the run directory, where `wandb sync` finds it.
        """
        import wandb

        if self._has_finished:
            wandb.teardown()
            return
        for process in self._service:
            with contextlib.suppress(psutil.Error):
                process.kill()
        with contextlib.suppress(Exception, SystemExit):
            wandb.teardown()


def _children() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)
