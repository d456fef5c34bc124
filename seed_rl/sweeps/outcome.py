"""How a run of a sweep ended, judged by its exit code and metrics."""

import dataclasses
from pathlib import Path

from seed_rl.runs.curves import final_return, read_periods, return_name
from seed_rl.signals import STOP_CODES, STOP_SIGNALS

# Exit codes of a launcher that was stopped, whether or not it could handle the signal.
_STOPPED = (*STOP_CODES, *(-signum for signum in STOP_SIGNALS))


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The outcome of a run that has ended.

    Attributes:
      exit_code: 0 for a complete run; -N if signal N ended it.
      final_return: mean of the return over the last tenth of the run's periods; None if no episode ended.
      return_name: the metric that `final_return` is computed from.
      env_frames: environment frames that the run has played.
      seconds: seconds of training.
      last_line: the last line of a failed run's log; '' otherwise.
    """

    exit_code: int
    final_return: float | None = None
    return_name: str | None = None
    env_frames: int | None = None
    seconds: float | None = None
    last_line: str = ""

    @property
    def failed(self) -> bool:
        """Whether the run ended before its last frame."""
        return self.exit_code != 0


def judge(logdir: Path, total_frames: int, exit_code: int, last_line: str) -> Outcome | None:
    """The outcome of a run whose process has ended; None if it was stopped and can resume.

    A launcher that was stopped with a checkpoint exits with the signal's code. A run is complete only if its
    launcher exits with 0 and `total_frames` environment frames have been played.
    """
    if exit_code in _STOPPED:
        return None
    if exit_code:
        return Outcome(exit_code, last_line=last_line.removeprefix("seed_rl: error: "))
    try:
        periods = read_periods(logdir)
    except ValueError:
        return None
    if periods[-1]["env_frames"] < total_frames:
        return None
    name = return_name(periods)
    return Outcome(
        0, final_return(periods), name, int(periods[-1]["env_frames"]), float(periods[-1]["seconds"])
    )
