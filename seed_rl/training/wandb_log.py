"""The figures of a run on Weights & Biases (extra [wandb])."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class WandbLog:
    """A run there for each run directory; a resumed run goes on in the same one."""

    def __init__(self, project: str, logdir: str, settings: Mapping[str, Any]):
        """Starts or resumes. Without a network, set WANDB_MODE=offline; `wandb sync` sends it later.

        Args:
          project: its name there.
          logdir: the run directory, which gives the run its name; wandb keeps its files there, too.
          settings: of the run, a nest of dicts.
        """
        import wandb

        path = Path(logdir).resolve()
        self._run = wandb.init(
            project=project,
            name=path.name,
            id=hashlib.sha256(str(path).encode()).hexdigest()[:16],
            resume="allow",
            dir=str(path),
            config=dict(settings),
        )

    def write(self, figures: Mapping[str, Any]) -> None:
        """The figures of a period; environment frames are the curves' axis."""
        self._run.log({k: v for k, v in figures.items() if v is not None}, step=figures["env_frames"])

    def close(self) -> None:
        """Sends what is left."""
        self._run.finish()
