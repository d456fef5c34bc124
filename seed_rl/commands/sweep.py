r"""Random search over hyperparameters: draws trials from a space and trains each with a few seeds.

Examples:
  seed_rl sweep --space=configs/sweeps/catch.yaml --trials=8 --seeds=2 --logdir=runs/sweep
  seed_rl sweep --space=SPACE.yaml --trials=24 --logdir=runs/mine --total_environment_frames=1e6

Flags that are not listed here go to `seed_rl train`, which trains every run; if the space names no
flagfile, runs use its preset for small machines, if there is one. Ctrl-C stops the runs with checkpoints; the
same command resumes the sweep, and with more --trials or --seeds it adds runs to it. The results are in
LOGDIR/table.csv and, as a plot, LOGDIR/sorted.png. Exit codes: 0 when all runs are complete, 1 if a run
failed or another process stopped it, 130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP.
"""

import contextlib
import dataclasses
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from seed_rl.flags.command_line import parse_options
from seed_rl.flags.definitions import option_names
from seed_rl.flags.errors import UsageError, require_package, usage_errors
from seed_rl.flags.outputs import check_output
from seed_rl.launch.presets import shortened
from seed_rl.messages import say
from seed_rl.options import Options, option
from seed_rl.plotting.config import PACKAGES, PlotConfig
from seed_rl.sweeps import directory, table
from seed_rl.sweeps.runner import Runner
from seed_rl.sweeps.space import read_space
from seed_rl.sweeps.trials import Sweep, make_sweep

_SHOWN = 10


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


def main(argv: list[str]) -> int:
    """Runs a sweep; returns its exit code."""
    own, others = _split(argv[1:])
    config, _ = parse_options([argv[0], *own], __doc__ or "", SweepConfig)
    require_package("yaml", "sweep")
    if config.space is None:
        raise UsageError("No space is chosen; add --space=FILE, such as --space=configs/sweeps/catch.yaml.")
    if config.logdir is None:
        raise UsageError("No directory is chosen; add --logdir=DIRECTORY.")
    with usage_errors():
        space, logdir = read_space(Path(config.space)), Path(config.logdir)
        sweep = make_sweep(space, logdir, config.trials, config.seeds, config.sweep_seed, others)
        directory.check(logdir, sweep.identity)
    with contextlib.ExitStack() as stack:
        with usage_errors():
            if not config.dry_run:
                stack.enter_context(directory.held(logdir, sweep.identity))
            runner = Runner(sweep, config.parallel, config.retry_failed, lambda: _write_table(sweep))
        _name_flagfiles(sweep)
        if not config.dry_run:
            return _play(sweep, runner)
        for run in runner.left():
            print(shlex.join(run.command))
        return 0


def _name_flagfiles(sweep: Sweep) -> None:
    """Reports where the runs' settings come from, besides the space."""
    names = ", ".join(str(shortened(path)) for path in sweep.flagfiles)
    if sweep.preset:
        say(f"{sweep.space.path} names no flagfile, so runs use the preset for small machines: {names}.")
    elif names:
        say(f"runs read {names}; if a flag is set more than once, its last value counts.")
    else:
        say(f"no flagfile: flags that {sweep.space.path} does not set keep their defaults.")


def _play(sweep: Sweep, runner: Runner) -> int:
    say(f"{len(runner.left())} of {len(sweep.runs)} runs left to train; the sweep is in {sweep.directory}.")
    stopped = runner.run()
    failed = sum(found.failed for found in runner.ended.values())
    if failed:
        say(f"{failed} of {len(sweep.runs)} runs failed; --retry_failed tries them again.")
    rows = _write_table(sweep)
    if stopped:
        return stopped
    print(table.as_text(rows[:_SHOWN]))
    print(f"Table of all trials: {sweep.directory / 'table.csv'}", flush=True)
    if rows[0]["final_return"] is not None:
        _plot(sweep.directory)
    return 1 if failed or runner.left() else 0


def _write_table(sweep: Sweep) -> list[dict[str, Any]]:
    with usage_errors():
        rows = table.collect(sweep)
    table.write(sweep, rows)
    return rows


def _plot(logdir: Path) -> None:
    """Plots the sorted returns; if the packages for plotting are missing, prints a line that says so."""
    output = logdir / "sorted.png"
    try:
        for package in PACKAGES:
            require_package(package, "plot")
        check_output(output, "output", overwrite=True)
        from seed_rl.plotting import picture

        with usage_errors():
            picture.draw_runs([logdir], PlotConfig(style="sorted", output=str(output)))
    except (UsageError, ImportError) as error:
        say(f"cannot draw {output}: {error}")


def _split(args: Sequence[str]) -> tuple[list[str], list[str]]:
    """Splits the arguments into those for this command and those for the runs.

    They are not parsed, because a parser would replace a flagfile with its lines, which would then override
    the space.
    """
    names = {*option_names(SweepConfig), "help", "helpfull"}
    mine: list[str] = []
    others: list[str] = []
    for arg in args:
        name = arg.lstrip("-").partition("=")[0]
        is_other = arg.startswith("--") and names.isdisjoint((name, name.removeprefix("no")))
        (others if is_other else mine).append(arg)
    return mine, others
