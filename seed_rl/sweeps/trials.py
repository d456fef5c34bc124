"""Turns a space into the commands of its trials, all of them checked before anything starts.

There is no database: a trial is a function of the sweep's seed and the trial's number, and a run directory
contains everything needed to resume. So there is no other bookkeeping, a sweep is extended by asking for more
trials or seeds, and the store that samplers such as Optuna come with would be of no use.
"""

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from seed_rl.actor.config import ActorConfig
from seed_rl.flags.command_line import CommandLine
from seed_rl.flags.definitions import option_names
from seed_rl.flags.errors import UsageError
from seed_rl.launch.config import LocalConfig
from seed_rl.launch.plan import complete_arguments, make_plan, parse_local
from seed_rl.learner.config import LearnerConfig
from seed_rl.sweeps.space import RESERVED, Space, Value, as_flags

_PROGRAM = ("seed_rl", "train")


@dataclasses.dataclass(frozen=True)
class Run:
    """One training run of a sweep, complete after `total_frames`. Trials and seeds count from 1."""

    trial: int
    seed: int
    command: list[str]
    logdir: Path
    total_frames: int

    @property
    def log(self) -> Path:
        """The file for the command's output."""
        return self.logdir.with_name(f"{self.logdir.name}.log")

    @property
    def outcome(self) -> Path:
        """The file that records how the run ended; it does not exist before that."""
        return self.logdir.with_name(f"{self.logdir.name}.json")


@dataclasses.dataclass(frozen=True)
class Sweep:
    """A sweep, as requested on a command line.

    Attributes:
      sweep_seed: the seed for sampling.
      trials: their number.
      identity: the settings that must not change in this directory, as JSON values.
      preset: the preset that the launcher adds to runs of a space without a flagfile; None if it adds none.
      flagfiles: every flagfile that a run reads, including the preset, each once.
      runs: the runs, in the order in which they start.
    """

    space: Space
    sweep_seed: int
    directory: Path
    trials: int
    identity: dict[str, Any]
    preset: Path | None
    flagfiles: list[Path]
    runs: list[Run]

    def values(self, trial: int) -> dict[str, Value]:
        """The values drawn for a trial, by flag."""
        return self.space.sample(self.sweep_seed, trial)


def make_sweep(
    space: Space, directory: Path, trials: int, seeds: int, sweep_seed: int, arguments: Sequence[str] = ()
) -> Sweep:
    """Makes the runs of a sweep, `seeds` of them for each trial.

    `arguments` are flags of `seed_rl train` for every run, as `--name=value`; they override the space's.

    Raises:
      UsageError: a flag does not exist or a value is not valid, in any of the trials.
    """
    _check_arguments(arguments, space)
    fixed = [
        *([f"--flagfile={space.flagfile}"] if space.flagfile else []),
        f"--environment={space.environment}",
        f"--agent={space.agent}",
        *as_flags(space.flags),
        *arguments,
    ]
    # Chosen once, so that trials differ only in the values drawn.
    _, preset = complete_arguments(fixed)
    if preset:
        fixed = [f"--flagfile={preset}", *fixed]
    identity = {
        **_fixed_settings(_resolved(fixed, directory), leave_out={*RESERVED, *space.parameters}),
        "space": {name: {d.kind: list(d.values)} for name, d in space.parameters.items()},
        "sweep_seed": sweep_seed,
        # With another version of NumPy the same seed may draw other numbers.
        "first_trial": space.sample(sweep_seed, 1),
    }
    runs: list[Run] = []
    for trial in range(1, trials + 1):
        flags = [*fixed, *as_flags(space.sample(sweep_seed, trial))]
        try:
            line = _resolved(flags, directory)
        except UsageError as error:
            raise UsageError(f"Trial {trial} of {space.path}: {error}") from None
        total_frames = line.read(LearnerConfig).total_environment_frames
        for seed in range(1, seeds + 1):
            logdir = trial_directory(directory, trial) / f"seed_{seed}"
            command = [sys.executable, "-m", *_PROGRAM, *flags, f"--seed={seed}", f"--logdir={logdir}"]
            runs.append(Run(trial, seed, command, logdir, total_frames))
    named = (flag.partition("=") for flag in fixed)
    flagfiles = list(dict.fromkeys(Path(value) for name, _, value in named if name == "--flagfile"))
    return Sweep(space, sweep_seed, directory, trials, identity, preset, flagfiles, runs)


def trial_directory(directory: Path, trial: int) -> Path:
    """Where the runs of a trial are."""
    return directory / f"trial_{trial:03d}"


def _resolved(flags: Sequence[str], directory: Path) -> CommandLine:
    """A run's flags as the launcher reads them; raises UsageError if the launcher would refuse them."""
    args, _ = complete_arguments([*flags, f"--logdir={directory}"])
    line = parse_local(["seed_rl train", *args], "")
    make_plan(line, "unix:/checked")
    return line


def _check_arguments(arguments: Sequence[str], space: Space) -> None:
    for argument in arguments:
        name = argument.lstrip("-").partition("=")[0]
        names = {name, name.removeprefix("no")}
        if names & set(space.parameters):
            raise UsageError(f"{argument} is also drawn in {space.path}; remove it from one of them.")
        if names & {"seed", "server_address"}:
            hint = "--seeds=K gives the seeds 1 to K" if name == "seed" else "each run has its own"
            raise UsageError(f"{argument} cannot be set in a sweep: {hint}.")


def _fixed_settings(line: CommandLine, leave_out: set[str]) -> dict[str, Any]:
    """The environment, the agent, and every flag that was given, including those in flagfiles."""
    classes = [LocalConfig, LearnerConfig, ActorConfig, line.environment_class, line.agent_class]
    names = option_names(*filter(None, classes)) - leave_out
    values = line.flag_values
    given = [name for name in sorted(names) if name in values and values[name].present]
    flags = {name: values[name].value for name in given}
    return {"environment": line.environment, "agent": line.agent, "flags": flags}
