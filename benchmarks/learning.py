"""Trains presets with several seeds, and writes a table of what they learn.

    python -m benchmarks learning --suite=atari      # docs/scores.md
    python -m benchmarks learning catch/ppo gym/sac/Pendulum-v1 --stop_at_goal

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
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import scores, suites
from benchmarks.harness import check_counts, make_directory, markdown, print_result, read_metrics
from benchmarks.learning_runs import (
    Case,
    FailedRun,
    Progress,
    is_record,
    keep_record,
    make_case,
    progress,
    record_changes,
    run_directory,
    train,
)
from seed_rl.flags.command_line import parse_options
from seed_rl.flags.errors import UsageError, usage_errors
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
    stop_at_goal: bool = option(False, "Ends a run as soon as it has reached its goal.")
    kill_learner_secs: float = option(
        math.inf, "Kills a learner that has trained for so long, in seconds, and resumes the run.", above=0
    )
    logdir: str = option("runs/learning", "Where the run directories are.")

    def validate(self) -> None:
        """Checks the seeds, and that a suite trains whole runs."""
        if self.seeds:
            check_counts("seeds", self.seeds)
        if self.suite and (self.stop_at_goal or self.kill_learner_secs < math.inf):
            raise ValueError(
                f"--suite={self.suite} trains whole runs; leave out --stop_at_goal and --kill_learner_secs."
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
    _print(results)
    if config.suite:
        scores.write(Path(config.records))
    print_result(
        {
            "benchmark": "learning",
            "goals": {case.name: suites.goal(case.record) for case in results},
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
    """Cases to train, with their seeds; UsageError if a suite comes with presets or flags."""
    given = tuple(int(seed) for seed in config.seeds.split(",")) if config.seeds else None
    if not config.suite:
        cases = [make_case(name, flags) for name in names] if names else _cases_with_goals(flags)
        return [(case, given or suites.THREE_SEEDS) for case in cases]
    if names or flags:
        raise UsageError(
            f"--suite={config.suite} has its own presets and flags; leave out {' '.join([*names, *flags])}, "
            "or --suite."
        )
    rows = suites.SUITES[config.suite].rows
    return [(make_case(row.preset, row.flags, row.label), given or row.seeds) for row in rows]


def _check(config: LearningConfig, plan: Sequence[tuple[Case, tuple[int, ...]]]) -> None:
    """Finds what would end the benchmark after hours of training; names records of other settings."""
    make_directory("logdir", config.logdir)
    if not config.suite:
        return
    make_directory("records", config.records)
    for case, seed in [(case, seed) for case, seeds in plan for seed in seeds]:
        kept = _places(config, case, seed)[1]
        if is_record(kept):
            with usage_errors():
                changes = record_changes(kept, case)
            if changes:
                told = f"recorded with another {'; '.join(changes)}; without {kept} it is trained."
                print(f"{case.name}, seed {seed}: {told}", file=sys.stderr, flush=True)


def _places(config: LearningConfig, case: Case, seed: int) -> tuple[Path, Path]:
    """The run directory, and the directory of its record."""
    logdir = run_directory(Path(config.logdir) / config.suite, case, f"seed_{seed}")
    return logdir, Path(config.records) / config.suite / logdir.name


def _cases_with_goals(flags: Sequence[str]) -> list[Case]:
    """All presets with a goal, as far as they exist."""
    return [
        make_case("/".join(filter(None, (goal.environment, agent, goal.game))), flags)
        for goal in suites.GOALS
        for agent in goal.agents
        if find_preset(configs_directory(), goal.environment, agent, goal.game)
    ]


def _train(config: LearningConfig, case: Case, seed: int) -> Progress | None:
    """Trains, unless there is a record of it; a complete run of a suite becomes a record."""
    name, mark = f"{case.name}, seed {seed}", suites.goal(case.record)
    logdir, kept = _places(config, case, seed)
    if config.suite and is_record(kept):
        found = progress(read_metrics(kept), mark)
        print(f"{name}: {_rounded(found.final)}, from {kept}", file=sys.stderr, flush=True)
        return found
    print(f"{name}: {logdir}", file=sys.stderr, flush=True)
    try:
        found = train(
            case,
            seed,
            logdir,
            mark=mark,
            stop_at_mark=config.stop_at_goal,
            kill_learner_secs=config.kill_learner_secs,
        )
    except FailedRun as error:
        print(f"{name}, failed: {error}", file=sys.stderr, flush=True)
        return None
    print(f"{name}: {_rounded(found.final)}", file=sys.stderr, flush=True)
    if config.suite and found.frames >= case.total_frames:
        keep_record(logdir, kept, mark)
    return found


def _print(results: dict[Case, Results]) -> None:
    """Prints a table for the docs: one row per preset, with the figures of its seeds in order."""
    seeds = ", ".join(map(str, next(iter(results.values()))))
    names = ("best", "frames", "minutes to the goal", "minutes in all")
    rows = []
    for case, runs in results.items():
        by_figure = zip(*(_figures(found) for found in runs.values()), strict=True)
        mark = _rounded(suites.goal(case.record))
        rows.append([case.name, mark, *("; ".join(map(_rounded, figure)) for figure in by_figure)])
    columns = ["preset", "goal", f"final mean return, seeds {seeds}", *names]
    print(f"\n{markdown(columns, rows)}", end="", flush=True)


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
