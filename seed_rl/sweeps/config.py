"""Settings of a sweep. Imports no TensorFlow."""

import dataclasses

from seed_rl.options import Options, option


@dataclasses.dataclass(frozen=True)
class SweepConfig(Options):
    """What to search, how many runs to try, and where the runs and the table go."""

    space: str | None = option(
        None, "YAML file that defines the space, such as configs/sweeps/catch.yaml.", is_path=True
    )
    trials: int = option(24, "Number of points of the space to try; the paper uses 24 and 40.", at_least=1)
    seeds: int = option(1, "Number of runs per trial, with seeds 1, 2 and so on.", at_least=1)
    sweep_seed: int = option(1, "Seed for sampling: trial i is a function of this seed and i.", at_least=0)
    parallel: int = option(1, "Number of runs that train at the same time on this machine.", at_least=1)
    logdir: str | None = option(
        None, "Directory of the sweep; run k of trial i goes to trial_00i/seed_k in it.", is_path=True
    )
    retry_failed: bool = option(False, "Retry failed runs from their last checkpoints.")
    dry_run: bool = option(False, "Print the commands that would run, and write nothing.")
