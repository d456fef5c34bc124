"""Prints how much of the time the stages of a run wait, what bounds its speed, and which flag to change.

Examples:
  seed_rl doctor runs/atari_vtrace_Pong
  seed_rl doctor --logdir=/shared/runs/football

It reads the metrics of the run's last periods, also while it trains. The live page shows the same all the
time: seed_rl watch, or seed_rl train with --web_address.
"""

import dataclasses

from seed_rl.flags.command_line import parse_options
from seed_rl.flags.errors import UsageError, usage_errors
from seed_rl.messages import warn
from seed_rl.metrics.bottlenecks import report
from seed_rl.metrics.curves import periods_so_far
from seed_rl.options import Options, option
from seed_rl.runs import record


@dataclasses.dataclass(frozen=True)
class DoctorConfig(Options):
    """Run to inspect."""

    logdir: str | None = option(None, "Directory of the run; it can be given without the flag.", is_path=True)


def main(argv: list[str]) -> int:
    """Prints the report; returns the exit code."""
    config, _ = parse_options(argv, __doc__ or "", DoctorConfig, positional=("logdir",))
    if config.logdir is None:
        raise UsageError("No run is given; add its directory: seed_rl doctor RUN_DIRECTORY.")
    with usage_errors():
        run = record.read(config.logdir)
    settings = {**run.learner_settings, **run.agent_settings}
    print(*report(run.logdir, settings, periods_so_far(run.logdir, warn)), sep="\n")
    return 0
