"""The trials of a sweep: the values that they draw, and the commands of their runs, all of them checked."""

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from seed_rl.flags.errors import UsageError
from seed_rl.flags.flagfile import configs_directory
from seed_rl.flags.settings import Settings
from seed_rl.launch.plan import make_plan, resolve_run
from seed_rl.sweeps.space import RESERVED, Space, Value, as_flags

_PROGRAM = ("seed_rl", "train")
_SAMPLERS: dict[str, Any] = {"random": optuna.samplers.RandomSampler, "tpe": optuna.samplers.TPESampler}
# By the kinds in a space file.
_DISTRIBUTIONS: dict[str, Callable[..., BaseDistribution]] = {
    "choice": lambda *values: CategoricalDistribution(values),
    "uniform": FloatDistribution,
    "log_uniform": functools.partial(FloatDistribution, log=True),
    "int_uniform": IntDistribution,
}

optuna.logging.set_verbosity(optuna.logging.WARNING)


class SweepRun(NamedTuple):
    """One training run of a sweep, complete after `total_frames` environment frames.

    Trials and seeds count from 1; `values` are the trial's, by flag. `log` is for the command's output.
    """

    trial: int
    seed: int
    values: Mapping[str, Value]
    command: list[str]
    logdir: Path
    log: Path
    total_frames: int


class Sweep:
    """A sweep, as requested on a command line.

    Attributes:
      space: the space.
      sweep_seed: the seed for sampling.
      directory: the directory of the sweep.
      identity: the settings that must not change in this directory, as JSON values.
      flagfiles: every flagfile that a run reads, each once, with the preset of a space that names none.
      total_frames: environment frames per run, unless they are drawn.
    """

    def __init__(
        self, space: Space, directory: Path, trials: int, sweep_seed: int, arguments: Sequence[str] = ()
    ):
        """Checks the flags of this many trials, as random sampling draws them.

        `arguments` are flags of `seed_rl train` for every run, as `--name=value`; they override the space's.

        Raises:
          UsageError: a flag does not exist or a value is not valid, in any of the trials.
        """
        _check_arguments(arguments, space)
        self.space, self.directory, self.sweep_seed = space, directory, sweep_seed
        own = [f"--environment={space.environment}", f"--agent={space.agent}", *as_flags(space.flags)]
        first = [f"--flagfile={space.flagfile}"] if space.flagfile else []
        # Chosen once, so that trials differ only in the values drawn.
        self._fixed = [*first, *own, *arguments]
        settings = self._checked({})
        if settings.preset:
            self._fixed = [f"--flagfile={configs_directory() / settings.preset}", *self._fixed]
            settings = self._checked({})
        for trial in range(1, trials + 1):
            try:
                self._checked(draw(space, sweep_seed, trial))
            except UsageError as error:
                raise UsageError(f"Trial {trial} of {space.path}: {error}") from None
        chosen = settings.chosen_origins().keys() - {*RESERVED, *space.parameters}
        self.identity = {
            "environment": settings.environment,
            "agent": settings.agent,
            "flags": {name: settings.values[name] for name in sorted(chosen)},
            "space": {name: {d.kind: list(d.values)} for name, d in space.parameters.items()},
            "sweep_seed": sweep_seed,
        }
        named = [flag.partition("=")[2] for flag in self._fixed if flag.startswith("--flagfile=")]
        self.flagfiles = list(dict.fromkeys(map(Path, named)))
        self.total_frames = settings.values["total_environment_frames"]

    def run(self, trial: int, seed: int, values: Mapping[str, Value]) -> SweepRun:
        """The run of a trial with these values, by flag."""
        logdir = self.directory / f"trial_{trial:03d}" / f"seed_{seed}"
        flags = [*self._fixed, *as_flags(values), f"--seed={seed}", f"--logdir={logdir}"]
        command = [sys.executable, "-m", *_PROGRAM, *flags]
        total_frames = int(values.get("total_environment_frames", self.total_frames))
        return SweepRun(
            trial, seed, values, command, logdir, logdir.with_name(f"{logdir.name}.log"), total_frames
        )

    def _checked(self, values: Mapping[str, Value]) -> Settings:
        """A run's settings as the launcher has them; raises UsageError if the launcher would refuse them."""
        settings = resolve_run(["train", *self._fixed, *as_flags(values), f"--logdir={self.directory}"])
        make_plan(settings, "unix:/checked")
        return settings


def draw(
    space: Space,
    sweep_seed: int,
    trial: int,
    sampler: str = "random",
    earlier: Sequence[optuna.trial.FrozenTrial] = (),
) -> dict[str, Value]:
    """The values of a trial, by flag.

    They depend on nothing but the arguments, and with the sampler `random` not on the earlier trials, either.
    """
    seed = int(np.random.SeedSequence([sweep_seed, trial]).generate_state(1)[0])
    study = optuna.create_study(direction="maximize", sampler=_SAMPLERS[sampler](seed=seed))
    study.add_trials(earlier)
    return study.ask(distributions(space)).params


def distributions(space: Space) -> dict[str, BaseDistribution]:
    """The space as Optuna's distributions, by flag."""
    return {name: _DISTRIBUTIONS[d.kind](*d.values) for name, d in space.parameters.items()}


def _check_arguments(arguments: Sequence[str], space: Space) -> None:
    for argument in arguments:
        name = argument.lstrip("-").partition("=")[0]
        names = {name, name.removeprefix("no")}
        if names & set(space.parameters):
            raise UsageError(f"{argument} is also drawn in {space.path}; remove it from one of them.")
        if names & {"seed", "server_address"}:
            hint = "--seeds=K gives the seeds 1 to K" if name == "seed" else "each run has its own"
            raise UsageError(f"{argument} cannot be set in a sweep: {hint}.")
