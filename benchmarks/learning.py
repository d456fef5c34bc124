"""Trains presets with several seeds, and writes a table of what they learn.

    python -m benchmarks.learning --suite=atari      # docs/scores.md
    python -m benchmarks.learning catch/ppo gym/sac/Pendulum-v1 --stop_at_goal

Arguments: ENVIRONMENT/AGENT or ENVIRONMENT/AGENT/GAME as `seed_rl train` takes them, such as catch/ppo,
gym/sac/Pendulum-v1 or minatar/rainbow; by default all presets that have a goal. Each run is
`seed_rl train` in a process of its own, one after the other. A run that is complete is not repeated when
the same command is given again, and one that is not resumes.

A return is the run's own mean over its latest episodes: in evaluation if it evaluates, else in training. The
final one is the last that it reported. Means before its hundredth episode do not count as best, nor for the
goal. Minutes are those of training, without the start of the processes. Flags of `seed_rl train` may be added
(as --name=value) and override the presets.
"""

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import records, scores, suites
from benchmarks.harness import (
    check_counts,
    make_directory,
    print_markdown,
    print_result,
    print_table,
    read_metrics,
)
from benchmarks.learning_runs import Case, FailedRun, Progress, make_case, progress, run_directory, train
from seed_rl.flags.command_line import parse_options
from seed_rl.flags.errors import UsageError, run_main, usage_errors
from seed_rl.flags.flagfile import configs_directory, find_preset
from seed_rl.options import Options, option


@dataclasses.dataclass(frozen=True)
class LearningConfig(Options):
    """Settings of the benchmark of learning."""

    suite: str = option(
        "",
        "Trains a suite: its presets with its seeds. What is complete becomes a record for docs/scores.md, "
        f"and what has a record is not trained. One of: {', '.join(suites.SUITES)}.",
        choices=("", *suites.SUITES),
    )
    seeds: str = option(
        "", "Seeds, separated by commas; one run for each. By default those of the suite, or 1,2,3."
    )
    records: str = option(str(scores.RECORDS), "Where the records of suites are.")
    again: bool = option(
        False, "Trains a suite's runs although they have records, unless they are complete in --logdir."
    )
    minutes: float = option(
        0.0, "Limit on the minutes of training of a run; 0: until its last frame.", at_least=0
    )
    stop_at_goal: bool = option(False, "Ends a run as soon as it has reached its goal.")
    logdir: str = option("runs/learning", "Where the run directories are.")
    markdown: bool = option(False, "Prints the table in Markdown, one row per preset, for the docs.")

    def validate(self) -> None:
        """Checks the seeds, and that a suite has no limit."""
        if self.seeds:
            check_counts("seeds", self.seeds)
        if self.suite and (self.stop_at_goal or self.minutes):
            raise ValueError(
                f"--suite={self.suite} trains whole runs; leave out --stop_at_goal and --minutes."
            )


# The figures of a preset by seed; None for a run that failed.
Results = dict[int, Progress | None]


def main(argv: list[str]) -> int:
    """Trains every preset with every seed, and prints the table; returns 1 if a run failed."""
    config, rest = parse_options(argv, __doc__ or "", LearningConfig, positional=None, pass_through=True)
    names = [arg for arg in rest if not arg.startswith("--")]
    flags = [arg for arg in rest if arg.startswith("--")]
    results: dict[Case, Results] = {}
    plan = _plan(config, names, flags)
    _check(config, plan)
    for case, seeds in plan:
        results[case] = {seed: _train(config, case, seed) for seed in seeds}
    (_print_markdown if config.markdown else _print_text)(results)
    if config.suite:
        scores.write(Path(config.records))
    print_result(
        {
            "benchmark": "learning",
            "goals": {case.name: goal(case) for case in results},
            "figures": {
                case.name: {str(seed): found and found._asdict() for seed, found in runs.items()}
                for case, runs in results.items()
            },
        }
    )
    return int(any(found is None for runs in results.values() for found in runs.values()))


def _plan(
    config: LearningConfig, names: Sequence[str], flags: Sequence[str]
) -> list[tuple[Case, tuple[int, ...]]]:
    """Cases to train, with their seeds.

    Raises:
      UsageError: there is no such preset, a flag is wrong, or a suite comes with presets or flags.
    """
    given = tuple(int(seed) for seed in config.seeds.split(",")) if config.seeds else None
    if not config.suite:
        cases = [make_case(name, flags) for name in names] if names else _cases_with_goals(flags)
        return [(case, given or suites.THREE_SEEDS) for case in cases]
    if names or flags:
        raise UsageError(
            f"--suite={config.suite} has its own presets and flags; leave out {' '.join([*names, *flags])}, "
            "or --suite."
        )
    rows = suites.SUITES[config.suite]
    return [(make_case(row.preset, row.flags, row.label), given or row.seeds) for row in rows]


def _check(config: LearningConfig, plan: Sequence[tuple[Case, tuple[int, ...]]]) -> None:
    """Finds what would end the benchmark after hours of training; names records of other settings.

    Raises:
      UsageError: a directory cannot be used, or a record cannot be read.
    """
    make_directory("logdir", config.logdir)
    if not config.suite:
        return
    make_directory("records", config.records)
    for case, seed in [(case, seed) for case, seeds in plan for seed in seeds]:
        kept = _places(config, case, seed)[1]
        if records.is_kept(kept) and not config.again:
            with usage_errors():
                changes = records.changes(kept, case)
            for change in changes:
                told = f"{case.name}, seed {seed}: recorded with another {change}; --again trains it."
                print(told, file=sys.stderr, flush=True)


def _places(config: LearningConfig, case: Case, seed: int) -> tuple[Path, Path]:
    """The run directory, and the directory of its record."""
    logdir = run_directory(Path(config.logdir) / config.suite, case, f"seed_{seed}")
    return logdir, Path(config.records) / config.suite / logdir.name


def goal(case: Case) -> float | None:
    """The mean return that a preset is meant to reach; None if it has no goal."""
    return suites.goal(case.environment, case.game, case.agent)


def _cases_with_goals(flags: Sequence[str]) -> list[Case]:
    """All presets with a goal; those that do not exist are named and left out."""
    cases = []
    for environment, game, _, agents in suites.GOALS:
        for agent in agents:
            name = "/".join(filter(None, (environment, agent, game)))
            if find_preset(configs_directory(), environment, agent, game):
                cases.append(make_case(name, flags))
            else:
                print(f"There is no preset for {name}; it is left out.", file=sys.stderr)
    return cases


def _train(config: LearningConfig, case: Case, seed: int) -> Progress | None:
    """Trains, unless there is a record of it; a complete run of a suite becomes a record."""
    name = f"{case.name}, seed {seed}"
    logdir, kept = _places(config, case, seed)
    if config.suite and records.is_kept(kept) and not config.again:
        found = progress(read_metrics(kept), goal(case))
        print(f"{name}: {_rounded(found.final)}, from {kept}", file=sys.stderr, flush=True)
        return found
    trained = train_case(name, case, seed, logdir, config.stop_at_goal, config.minutes)
    if config.suite and trained is not None and trained.frames >= case.total_frames:
        records.keep(logdir, kept, goal(case))
    return trained


def train_case(
    name: str, case: Case, seed: int, logdir: Path, stop_at_goal: bool, minutes: float
) -> Progress | None:
    """Trains, logs the result to standard error, and returns it; None if the run failed.

    Args:
      name: what the run is called there.
      case: what to train.
      seed: as in `learning_runs.train`, like all that follows.
      logdir: the run directory.
      stop_at_goal: whether the run ends where it reaches the goal of its preset.
      minutes: limit on the training time.
    """
    print(f"{name}: {logdir}", file=sys.stderr, flush=True)
    try:
        found = train(case, seed, logdir, mark=goal(case), stop_at_mark=stop_at_goal, minutes=minutes)
    except FailedRun as error:
        print(f"{name}, failed: {error}", file=sys.stderr, flush=True)
        return None
    print(f"{name}: {_rounded(found.final)}", file=sys.stderr, flush=True)
    return found


def _print_text(results: dict[Case, Results]) -> None:
    """One row per run."""
    columns = ["preset", "goal", "seed", "final return", "best", "frames", "minutes to goal", "minutes"]
    rows = [
        [case.name, goal(case), seed, *_figures(found)]
        for case, runs in results.items()
        for seed, found in runs.items()
    ]
    print_table("What presets learn", columns, rows)


def _print_markdown(results: dict[Case, Results]) -> None:
    """One row per preset, with the figures of its seeds in order."""
    seeds = ", ".join(map(str, next(iter(results.values()))))
    names = ("best", "frames", "minutes to the goal", "minutes in all")
    columns = ["preset", "goal", f"final mean return, seeds {seeds}", *names]
    rows = []
    for case, runs in results.items():
        by_figure = zip(*(_figures(found) for found in runs.values()), strict=True)
        rows.append([case.name, _rounded(goal(case)), *("; ".join(map(_rounded, f)) for f in by_figure)])
    print_markdown(columns, rows)


def _figures(found: Progress | None) -> list[Any]:
    """The columns of a run: final return, best, frames, minutes to the goal, minutes in all."""
    if found is None:
        return ["failed", None, None, None, None]
    to_goal = None if found.seconds_to_mark is None else found.seconds_to_mark / 60
    return [found.final, found.best, found.frames, to_goal, found.seconds / 60]


def _rounded(value: Any) -> str:
    """Text for a cell: three significant digits or more, and commas between thousands."""
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


if __name__ == "__main__":
    run_main(main, sys.argv)
