"""Trains shipped presets with several seeds, and writes a table of what they learn.

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
from typing import Any, NamedTuple

from benchmarks.harness import check_counts, print_markdown, print_result, print_table
from benchmarks.learning_runs import Case, FailedRun, Progress, make_case, run_directory, train
from seed_rl.flags.command_line import parse_options
from seed_rl.flags.configs import configs_directory
from seed_rl.flags.errors import run_main
from seed_rl.launch.presets import find_preset
from seed_rl.options import Options, option


class Goal(NamedTuple):
    """What presets are meant to reach.

    Attributes:
      environment: name of the suite.
      game: its game; None for a suite without games.
      mark: the mean return.
      agents: the agents, and variants, that are meant to reach it.
    """

    environment: str
    game: str | None
    mark: float
    agents: tuple[str, ...]


GOALS = (
    Goal("catch", None, 0.95, ("ppo", "appo", "a2c", "dqn", "pqn", "sac", "vtrace", "r2d2")),
    Goal("gym", "CartPole-v1", 475, ("ppo", "appo", "a2c", "dqn", "pqn", "vtrace", "r2d2")),
    Goal("recall", None, 0.95, ("ppo", "appo", "a2c", "pqn", "vtrace", "r2d2")),
    Goal("minatar", "breakout", 10, ("ppo", "dqn", "rainbow", "pqn", "vtrace", "r2d2")),
    Goal("atari", "Pong", 18, ("vtrace", "appo", "ppo", "pqn", "dqn", "rainbow")),
    Goal("gym", "HalfCheetah-v5", 6000, ("sac",)),
    Goal("gym", "HalfCheetah-v5", 1500, ("ppo",)),
    Goal("gym", "Pendulum-v1", -200, ("sac",)),
)


@dataclasses.dataclass(frozen=True)
class LearningConfig(Options):
    """Settings of the benchmark of learning."""

    seeds: str = option("1,2,3", "Seeds, separated by commas; one run for each.")
    minutes: float = option(
        0.0, "Limit on the minutes of training of a run; 0: until its last frame.", at_least=0
    )
    stop_at_goal: bool = option(False, "Ends a run as soon as it has reached its goal.")
    logdir: str = option("runs/learning", "Where the run directories are.")
    markdown: bool = option(False, "Prints the table in Markdown, one row per preset, for the docs.")

    def validate(self) -> None:
        """Checks the seeds."""
        check_counts("seeds", self.seeds)


# The figures of a preset by seed; None for a run that failed.
Results = dict[int, Progress | None]


def main(argv: list[str]) -> int:
    """Trains every preset with every seed, and prints the table; returns 1 if a run failed."""
    config, rest = parse_options(argv, __doc__ or "", LearningConfig, positional=None, pass_through=True)
    names = [arg for arg in rest if not arg.startswith("--")]
    flags = [arg for arg in rest if arg.startswith("--")]
    cases = [make_case(name, flags) for name in names] if names else _cases_with_goals(flags)
    results: dict[Case, Results] = {}
    for case in cases:
        results[case] = {int(seed): _train(config, case, int(seed)) for seed in config.seeds.split(",")}
    (_print_markdown if config.markdown else _print_text)(results)
    print_result(
        {
            "benchmark": "learning",
            "goals": {case.name: goal(case) for case in cases},
            "figures": {
                case.name: {str(seed): found and found._asdict() for seed, found in runs.items()}
                for case, runs in results.items()
            },
        }
    )
    return int(any(found is None for runs in results.values() for found in runs.values()))


def goal(case: Case) -> float | None:
    """The mean return that a preset is meant to reach; None if it has no goal."""
    played = (case.environment, case.game)
    marks = (g.mark for g in GOALS if (g.environment, g.game) == played and case.agent in g.agents)
    return next(marks, None)


def _cases_with_goals(flags: Sequence[str]) -> list[Case]:
    """All presets with a goal; those that do not exist are named and left out."""
    cases = []
    for environment, game, _, agents in GOALS:
        for agent in agents:
            name = "/".join(filter(None, (environment, agent, game)))
            if find_preset(configs_directory(), environment, agent, game):
                cases.append(make_case(name, flags))
            else:
                print(f"There is no preset for {name}; it is left out.", file=sys.stderr)
    return cases


def _train(config: LearningConfig, case: Case, seed: int) -> Progress | None:
    logdir = run_directory(Path(config.logdir), case, f"seed_{seed}")
    return train_case(f"{case.name}, seed {seed}", case, seed, logdir, config.stop_at_goal, config.minutes)


def train_case(
    name: str, case: Case, seed: int, logdir: Path, stop_at_goal: bool, minutes: float
) -> Progress | None:
    """Trains, says what comes of it on standard error, and returns that; None if the run failed.

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
