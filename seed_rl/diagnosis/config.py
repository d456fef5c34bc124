"""Settings of the doctor."""

import dataclasses

from seed_rl.options import Options, option


@dataclasses.dataclass(frozen=True)
class DoctorConfig(Options):
    """How a run is looked at."""

    live: bool = option(
        False,
        "Look again whenever the run has written metrics, every --log_period_secs of the run, and at the CPU "
        "use of its processes if they are on this machine; until the run or Ctrl-C ends it.",
    )
