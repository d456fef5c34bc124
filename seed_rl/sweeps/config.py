"""Settings of a sweep. Imports no TensorFlow."""

import dataclasses

from seed_rl.options import Options, option


@dataclasses.dataclass(frozen=True)
class SweepConfig(Options):
    """What is searched, how much of it, and where the runs and the table go."""

    space: str | None = option(None, "YAML file of the space, such as configs/sweeps/catch.yaml.")
    trials: int = option(24, "Points of the space that are tried; the paper has 24 and 40.", at_least=1)
    seeds: int = option(1, "Runs of each trial, with the seeds 1, 2 and so on.", at_least=1)
    sweep_seed: int = option(1, "Seed of the sampling: trial i is a function of this and i.", at_least=0)
    parallel: int = option(1, "Runs that train at the same time on this machine.", at_least=1)
    logdir: str | None = option(None, "Directory of the sweep; run k of trial i is trial_00i/seed_k in it.")
    retry_failed: bool = option(False, "Try runs that have failed again, from their last checkpoints.")
    dry_run: bool = option(False, "Print the commands that would run, and write nothing.")
