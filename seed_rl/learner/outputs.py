"""What a learner writes and shows of its figures: files and standard output, which may fail."""

from collections.abc import Callable, Mapping
from typing import Any

from seed_rl.learner.config import LearnerConfig
from seed_rl.reporting.guard import Guard
from seed_rl.reporting.metrics import MetricsWriter
from seed_rl.reporting.progress import ProgressDisplay


class Outputs:
    """Metrics, TensorBoard, W&B and progress. Of several learner hosts, only the first one has figures."""

    def __init__(self, config: LearnerConfig, settings: Mapping[str, Any], env_frames: int, is_first: bool):
        """Opens them.

        Args:
          config: of the learner.
          settings: of the run, nested dicts, for the logs.
          env_frames: where the run starts, more than 0 if it is resumed.
          is_first: whether this is the first learner host, or the only one.
        """
        guard = Guard()
        self._display = ProgressDisplay(config.total_environment_frames, env_frames, guard)
        self._metrics: MetricsWriter | None = None
        if is_first:
            self._metrics = MetricsWriter(config.logdir, settings, config.wandb_project, guard)
        self.say: Callable[[str], None] = self._display.say

    def show(self, figures: Mapping[str, Any]) -> None:
        """Writes and shows the figures of a period."""
        if self._metrics is not None:
            self._metrics.write(figures)
            self._display.show(figures)

    def write_last(self, figures: Mapping[str, Any]) -> None:
        """Writes the figures of the last period; `finish` shows them."""
        if self._metrics is not None:
            self._metrics.write(figures)

    def finish(self, figures: Mapping[str, Any], ended: str) -> None:
        """Says how the run ended."""
        if self._metrics is not None:
            self._display.finish(figures, ended)
        else:
            self._display.say(f"{ended}.")

    def close(self) -> None:
        """Flushes and closes the files; waits only for a limited time."""
        if self._metrics is not None:
            self._metrics.close()
