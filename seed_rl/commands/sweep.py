r"""Searches hyperparameters with Optuna: draws trials from a space and trains each with a few seeds.

Examples:
  seed_rl sweep configs/sweeps/catch.yaml --trials=8 --seeds=2 --logdir=runs/sweep
  seed_rl sweep SPACE.yaml --trials=40 --sampler=tpe --pruner=median --logdir=runs/mine
  seed_rl sweep SPACE.yaml --trials=24 --logdir=runs/short --total_environment_frames=1e6

Flags that are not listed here go to `seed_rl train`, which trains every run; if the space names no
flagfile, runs use its preset for small machines, if there is one. Ctrl-C stops the runs with checkpoints; the
same command resumes the sweep, and with more --trials or --seeds it adds runs to it. The results are in
LOGDIR/table.csv and, as a plot, LOGDIR/sorted.png; `optuna-dashboard LOGDIR/journal.log` shows them in a
browser. Exit codes: 0 when all runs are complete, 1 if a run failed or another process stopped it, 130 after
Ctrl-C, 143 after SIGTERM, 129 after SIGHUP.
"""

import contextlib
import dataclasses
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from seed_rl.files import shortened
from seed_rl.flags.command_line import check_output, parse_options
from seed_rl.flags.errors import UsageError, require_package, usage_errors
from seed_rl.flags.flagfile import find_config
from seed_rl.messages import say
from seed_rl.options import Options, option
from seed_rl.plotting import PACKAGES
from seed_rl.runs import lock
from seed_rl.sweeps.space import read_space

if TYPE_CHECKING:
    from seed_rl.sweeps.study import Trials

_SHOWN = 10


@dataclasses.dataclass(frozen=True)
class SweepConfig(Options):
    """Space to search, number of runs to try, and paths of the runs and the table."""

    space: str | None = option(
        None, "YAML file that defines the space, such as configs/sweeps/catch.yaml.", is_path=True
    )
    trials: int | None = option(
        None, "Number of points of the space to try; by default the space file's, else 24.", at_least=1
    )
    seeds: int | None = option(
        None,
        "Number of runs per trial, with seeds 1, 2 and so on; by default the space file's, else 1.",
        at_least=1,
    )
    sweep_seed: int = option(
        1, "Seed for sampling; at random, trial i is a function of this seed and i.", at_least=0
    )
    sampler: str = option(
        "random",
        "How trials are drawn: random, as in the paper, or tpe, which looks for the best return from the "
        "eleventh trial on (tree-structured Parzen estimator; Bergstra et al., 2011).",
        choices=("random", "tpe"),
    )
    pruner: str = option(
        "none",
        "median ends a trial whose best mean return so far is below the median of complete runs at the same "
        "number of environment frames. It looks at runs of seed 1, once five are complete and a quarter of "
        "this one is played.",
        choices=("none", "median"),
    )
    parallel: int = option(1, "Number of runs that train at the same time on this machine.", at_least=1)
    logdir: str | None = option(
        None, "Directory of the sweep; run k of trial i goes to trial_00i/seed_k in it.", is_path=True
    )
    retry_failed: bool = option(False, "Retry failed runs from their last checkpoints.")
    dry_run: bool = option(False, "Print the commands that would run, and write nothing.")


def main(argv: list[str]) -> int:
    """Runs a sweep; returns its exit code."""
    config, others = parse_options(argv, __doc__ or "", SweepConfig, positional=("space",), pass_through=True)
    for package in ("yaml", "optuna"):
        require_package(package, "sweep")
    if config.space is None:
        raise UsageError("No space is chosen; add a file such as configs/sweeps/catch.yaml.")
    if config.logdir is None:
        raise UsageError("No directory is chosen; add --logdir=DIRECTORY.")
    if config.dry_run and config.sampler != "random":
        raise UsageError(
            f"--dry_run cannot print what --sampler={config.sampler} draws from results; leave one of them "
            "out."
        )
    # They need Optuna.
    from seed_rl.sweeps.study import Trials, load, make_pruner
    from seed_rl.sweeps.trials import Sweep

    with contextlib.ExitStack() as exit_stack:
        with usage_errors():
            space, logdir = read_space(find_config(config.space, "sweeps/*.yaml")), Path(config.logdir)
            num_trials, num_seeds = config.trials or space.trials or 24, config.seeds or space.seeds or 1
            sweep = Sweep(space, logdir, num_trials, config.sweep_seed, others)
            study = load(logdir, sweep.identity, writes=False)
            if not config.dry_run:
                exit_stack.enter_context(lock.held(logdir))
                study = load(logdir, sweep.identity)
        study.pruner = make_pruner(config.pruner, sweep.total_frames)
        trials = Trials(study, sweep, num_trials, num_seeds, config.sampler, config.retry_failed)
        if names := ", ".join(str(shortened(path)) for path in sweep.flagfiles):
            say(f"runs read {names}; if a flag is set more than once, its last value counts.")
        else:
            say(f"no preset: what {space.path} does not set is computed from the environment's spaces.")
        if config.dry_run:
            for trial, seed in trials.left():
                print(shlex.join(trials.run(trial, seed).command))
            return 0
        return _play(trials, logdir, config.parallel)


def _play(trials: "Trials", logdir: Path, parallel: int) -> int:
    """Executes the runs that are left, and prints the results; returns the exit code."""
    from seed_rl.sweeps.runner import Runner
    from seed_rl.sweeps.study import short

    left, total = len(trials.left()), trials.trials * trials.seeds
    say(f"{left} of {total} runs left to train; the sweep is in {logdir}.")
    stopped = Runner(trials, parallel).run()
    if failed := trials.failed():
        say(f"{failed} of {total} runs failed; --retry_failed tries them again.")
    rows = trials.write_table()
    if stopped:
        return stopped
    cells = [list(rows[0]), *(list(map(short, row.values())) for row in rows[:_SHOWN])]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        print("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)))
    print(f"Table of all trials: {logdir / 'table.csv'}")
    if shares := trials.importances():
        print("Importance: " + ", ".join(f"{name} {share:.0%}" for name, share in shares.items()))
    sys.stdout.flush()
    if rows[0]["final_return"] is not None:
        _plot(logdir)
    return 1 if failed or trials.left() else 0


def _plot(logdir: Path) -> None:
    """Plots the sorted returns; if the packages for plotting are missing, prints a warning."""
    output = logdir / "sorted.png"
    try:
        for package in PACKAGES:
            require_package(package, "plot")
        check_output(output, "output", overwrite=True)
        from seed_rl.plotting import picture

        with usage_errors():
            picture.draw_runs([logdir], output, "sorted")
    except (UsageError, ImportError) as error:
        say(f"cannot draw {output}: {error}")
