"""Says what bounds the speed of a run, the figures that show it, and which flag to change.

Examples:
  seed_rl doctor runs/atari_vtrace_Pong
  seed_rl doctor runs/atari_vtrace_Pong --live

It reads the metrics of the run's last periods. With --live it reports on each new period while the run
trains, and looks at the CPU use of its processes if they are on this machine.
"""

import dataclasses

from seed_rl.diagnosis.report import report, watch
from seed_rl.flags.command_line import parse_options
from seed_rl.flags.errors import UsageError, usage_errors
from seed_rl.options import Options, option
from seed_rl.runs import record


@dataclasses.dataclass(frozen=True)
class DoctorConfig(Options):
    """How a run is looked at."""

    live: bool = option(
        False,
        "Look again whenever the run has written metrics, every --log_period_secs of the run, and at the CPU "
        "use of its processes if they are on this machine; until the run or Ctrl-C ends it.",
    )


def main(argv: list[str]) -> int:
    """Prints the report, or one after the other; returns the exit code."""
    config, paths = parse_options(argv, __doc__ or "", DoctorConfig, positional=True)
    if len(paths) != 1:
        raise UsageError(f"{len(paths)} run directories are given; name one.")
    with usage_errors():
        run = record.read(paths[0])
    if config.live:
        watch(run, _say)
    else:
        _say(report(run))
    return 0


def _say(lines: list[str]) -> None:
    print(*lines, sep="\n", flush=True)
