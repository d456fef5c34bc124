"""The figures of a run on Weights & Biases (extra [wandb])."""

import contextlib
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil


class WandbLog:
    """A run there for each run directory; a resumed run continues in the same one."""

    def __init__(self, project: str, logdir: str, settings: Mapping[str, Any]):
        """Starts or resumes. Without a network, set WANDB_MODE=offline; `wandb sync` sends it later.

        Args:
          project: its name there.
          logdir: the run directory, which gives the run its name; wandb keeps its files there, too.
          settings: of the run, a nest of dicts.
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
        """The figures of a period; environment frames are the curves' axis."""
        self._run.log({k: v for k, v in figures.items() if v is not None}, step=figures["env_frames"])

    def close(self) -> None:
        """Sends what is left."""
        self._run.finish()
        self._has_finished = True

    def end_service(self) -> None:
        """Ends the processes that send the figures, if they have not ended by themselves.

        Otherwise the package waits without a limit, when Python exits, for a service that does not answer.
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
