"""Prints how much of the time the stages of a run wait, what bounds its speed, and which flag to change.

Examples:
  seed_rl doctor runs/atari_vtrace_Pong
  seed_rl doctor runs/atari_vtrace_Pong --live

It reads the metrics of the run's last periods. With --live it reports on each new period while the run
trains.
"""

import dataclasses
import time
from typing import Any

from seed_rl.flags.command_line import parse_options
from seed_rl.flags.errors import UsageError, usage_errors
from seed_rl.messages import warn
from seed_rl.metrics.bottlenecks import LEAST_PERIODS, report
from seed_rl.metrics.curves import periods_so_far
from seed_rl.options import Options, option
from seed_rl.runs import lock, record
from seed_rl.runs.record import RunRecord

_POLL_SECS = 0.5


@dataclasses.dataclass(frozen=True)
class DoctorConfig(Options):
    """Run to inspect, once or live."""

    logdir: str | None = option(None, "Directory of the run; it can be given without the flag.", is_path=True)
    live: bool = option(
        False,
        "Report again whenever the run has written metrics, every --log_period_secs of the run, until the "
        "run or Ctrl-C ends it.",
    )


def main(argv: list[str]) -> int:
    """Prints the report, or one after the other; returns the exit code."""
    config, _ = parse_options(argv, __doc__ or "", DoctorConfig, positional=("logdir",))
    if config.logdir is None:
        raise UsageError("No run is given; add its directory: seed_rl doctor RUN_DIRECTORY.")
    with usage_errors():
        run = record.read(config.logdir)
    settings = {**run.learner_settings, **run.agent_settings}
    periods = periods_so_far(run.logdir, warn)
    if config.live:
        _watch(run, settings, periods)
    else:
        print(*report(run.logdir, settings, periods), sep="\n")
    return 0


def _watch(run: RunRecord, settings: dict[str, Any], periods: list[dict[str, Any]]) -> None:
    """Reports on the last periods whenever there is a new one, until no learner trains in the directory."""
    reported = -1
    while True:
        is_training = lock.holder(run.logdir) is not None
        if len(periods) != reported or not is_training:
            reported = len(periods)
            print(*report(run.logdir, settings, periods, LEAST_PERIODS), sep="\n", flush=True)
        if not is_training:
            print("No learner trains in this directory now.")
            return
        time.sleep(_POLL_SECS)
        periods = periods_so_far(run.logdir)
