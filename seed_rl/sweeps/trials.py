"""Turns a space into the commands of its runs, all of them checked before anything starts."""

import dataclasses
import sys
from collections.abc import Mapping, Sequence
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
from seed_rl.sweeps.study import draw

_PROGRAM = ("seed_rl", "train")


@dataclasses.dataclass(frozen=True)
class Run:
    """One training run of a sweep, complete after `total_frames` environment frames.

    Trials and seeds count from 1.
    """

    trial: int
    seed: int
    command: list[str]
    logdir: Path
    total_frames: int

    @property
    def log(self) -> Path:
        """The file for the command's output."""
        return self.logdir.with_name(f"{self.logdir.name}.log")


@dataclasses.dataclass(frozen=True)
class Sweep:
    """A sweep, as requested on a command line.

    Attributes:
      sweep_seed: the seed for sampling.
      directory: the directory of the sweep.
      identity: the settings that must not change in this directory, as JSON values.
      flagfiles: every flagfile that a run reads, each once, with the preset of a space that names none.
      fixed: the flags that all runs have.
      total_frames: environment frames per run, unless they are drawn.
    """

    space: Space
    sweep_seed: int
    directory: Path
    identity: dict[str, Any]
    flagfiles: list[Path]
    fixed: list[str]
    total_frames: int

    def run(self, trial: int, seed: int, values: Mapping[str, Value]) -> Run:
        """The run of a trial with these values, by flag."""
        logdir = self.directory / f"trial_{trial:03d}" / f"seed_{seed}"
        flags = [*self.fixed, *as_flags(values), f"--seed={seed}", f"--logdir={logdir}"]
        total_frames = int(values.get("total_environment_frames", self.total_frames))
        return Run(trial, seed, [sys.executable, "-m", *_PROGRAM, *flags], logdir, total_frames)


def make_sweep(
    space: Space, directory: Path, trials: int, sweep_seed: int, arguments: Sequence[str] = ()
) -> Sweep:
    """Makes a sweep, and checks the flags of this many trials, as random sampling draws them.

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
    line = _resolved(fixed, directory)
    for trial in range(1, trials + 1):
        try:
            _resolved([*fixed, *as_flags(draw(space, sweep_seed, trial))], directory)
        except UsageError as error:
            raise UsageError(f"Trial {trial} of {space.path}: {error}") from None
    identity = {
        **_fixed_settings(line, leave_out={*RESERVED, *space.parameters}),
        "space": {name: {d.kind: list(d.values)} for name, d in space.parameters.items()},
        "sweep_seed": sweep_seed,
    }
    named = (flag.partition("=") for flag in fixed)
    flagfiles = list(dict.fromkeys(Path(value) for name, _, value in named if name == "--flagfile"))
    total_frames = line.read(LearnerConfig).total_environment_frames
    return Sweep(space, sweep_seed, directory, identity, flagfiles, fixed, total_frames)


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
