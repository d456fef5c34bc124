"""Gain of larger batches: frames and updates until a goal, for each rule for the learning rate.

The question is that of Stooke & Abbeel, "Accelerated Methods for Deep Reinforcement Learning" (2018),
sections 5.3 and 5.4. As in their experiments, there are more environments for a larger batch, while the
length of unrolls and the replay ratio stay the same: with a batch that is k times as large, a run makes a
k-th of the updates for the same frames. A larger batch pays as long as the frames until the goal hardly grow,
because a machine with accelerators plays and learns them faster.

Arguments: presets as benchmarks.learning takes them; by default V-trace on Catch, CartPole and MinAtar's
Breakout. Goals are those of benchmarks.learning. Each run is `seed_rl train` in a process of its own,
one after the other, and ends at its goal or at its last frame. When the same command is given again, runs
that have ended are not repeated, and others resume. Flags of `seed_rl train` may be added (as --name=value)
and override the presets.
"""

import dataclasses
import itertools
import math
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.harness import (
    check_counts,
    check_names,
    make_directory,
    print_markdown,
    print_result,
    print_table,
)
from benchmarks.learning import goal, train_case
from benchmarks.learning_runs import Case, Progress, make_case, run_directory
from seed_rl.flags.command_line import parse_options
from seed_rl.flags.errors import UsageError, run_main
from seed_rl.options import Options, option

PRESETS = ("catch/vtrace", "gym/vtrace/CartPole-v1", "minatar/vtrace/breakout")
RULES = ("none", "sqrt", "linear")

# Frames until the goal are known to within a period.
_PERIOD = "--log_period_secs=0.5"


@dataclasses.dataclass(frozen=True)
class BatchSizeConfig(Options):
    """Settings of the benchmark of batch sizes."""

    factors: str = option(
        "2,4,8", "Batch sizes as multiples of the preset's, separated by commas; its own is always there."
    )
    rules: str = option(
        ",".join(RULES), f"Rules for the learning rate, separated by commas: {', '.join(RULES)}."
    )
    seeds: str = option("1", "Seeds, separated by commas; one run for each.")
    scale_environments: bool = option(
        True, "Whether environments, and batches of inference, are multiplied like the training batch."
    )
    tolerance: float = option(
        1.25,
        "A batch pays if it reaches the goal within this many times the frames that the preset's own takes.",
        at_least=1,
    )
    minutes: float = option(
        0.0, "Limit on the minutes of training of a run; 0: until its last frame.", at_least=0
    )
    logdir: str = option("runs/batch_size", "Where the run directories are.")
    markdown: bool = option(False, "Prints the tables in Markdown, for the docs.")

    def validate(self) -> None:
        """Checks the lists."""
        for name in ("factors", "seeds"):
            check_counts(name, getattr(self, name))
        check_names("rules", self.rules, RULES)


class Setting(NamedTuple):
    """A batch size and a rule for the learning rate.

    Attributes:
      factor: the batch size, as a multiple of the preset's.
      rule: the value of `--learning_rate_scaling`.
      case: the preset with these.
    """

    factor: int
    rule: str
    case: Case


class Outcome(NamedTuple):
    """Results of the runs of a setting.

    Attributes:
      runs: how many there were, with those that failed.
      reached: how many have reached the goal.
      frames: environment frames until then, the median of those; None if there are none.
      updates: updates until then, likewise.
      minutes: minutes of training until then, likewise.
    """

    runs: int
    reached: int
    frames: float | None
    updates: float | None
    minutes: float | None


# By factor and rule.
Outcomes = dict[tuple[int, str], Outcome]

# The preset as it is, which all others are compared with.
_OWN = (1, "none")


def main(argv: list[str]) -> int:
    """Trains with all batch sizes and rules, and prints the tables; returns 1 if a run failed."""
    config, rest = parse_options(argv, __doc__ or "", BatchSizeConfig, positional=None, pass_through=True)
    names = [arg for arg in rest if not arg.startswith("--")] or PRESETS
    flags = [arg for arg in rest if arg.startswith("--")]
    plan = {name: _settings(config, name, flags) for name in names}  # Bad input ends the benchmark here.
    make_directory("logdir", config.logdir)
    results: dict[str, Outcomes] = {}
    failed = False
    for name, settings in plan.items():
        results[name] = {}
        for setting in settings:
            runs = [_train(config, setting, int(seed)) for seed in config.seeds.split(",")]
            failed |= None in runs
            results[name][setting.factor, setting.rule] = summarize(runs)
    _print(config, plan, results)
    print_result(
        {
            "benchmark": "batch_size",
            "goals": {name: goal(settings[0].case) for name, settings in plan.items()},
            "largest_that_pays": {
                name: largest_that_pays(outcomes, config.tolerance) for name, outcomes in results.items()
            },
            "figures": {
                name: {f"{factor}_{rule}": found._asdict() for (factor, rule), found in outcomes.items()}
                for name, outcomes in results.items()
            },
        }
    )
    return int(failed)


def _settings(config: BatchSizeConfig, name: str, flags: Sequence[str]) -> list[Setting]:
    """All settings for a preset; rules do not differ at the preset's own batch size."""
    preset = make_case(name, flags)
    if goal(preset) is None:
        raise UsageError(f"{name} has no goal; choose a preset that benchmarks.learning has one for.")
    found = []
    for factor in sorted({1, *map(int, config.factors.split(","))}):
        for rule in config.rules.split(",") if factor > 1 else ("none",):
            own = [_PERIOD, *flags, f"--batch_size={factor * preset.batch_size}"]
            if rule != "none":
                own += [f"--learning_rate_scaling={rule}", f"--learning_rate_batch_size={preset.batch_size}"]
            if config.scale_environments:
                own.append(f"--env_batch_size={factor * preset.env_batch_size}")
                own.append(f"--inference_batch_size={factor * preset.inference_batch_size}")
            found.append(Setting(factor, rule, make_case(name, own)))
    return found


def _train(config: BatchSizeConfig, setting: Setting, seed: int) -> Progress | None:
    case = setting.case
    scaled = () if config.scale_environments else ("same_environments",)
    parts = (f"batch_{case.batch_size}", setting.rule, *scaled, f"seed_{seed}")
    name = f"{case.name}, batches of {case.batch_size}, {setting.rule}, seed {seed}"
    logdir = run_directory(Path(config.logdir), case, *parts)
    return train_case(name, case, seed, logdir, stop_at_goal=True, minutes=config.minutes)


def summarize(runs: Sequence[Progress | None]) -> Outcome:
    """The outcome of a setting's runs; None stands for one that failed."""
    reached = [run for run in runs if run is not None and run.frames_to_mark is not None]
    if not reached:
        return Outcome(len(runs), 0, None, None, None)
    frames, updates, seconds = (
        statistics.median(getattr(run, f"{name}_to_mark") for run in reached)
        for name in ("frames", "updates", "seconds")
    )
    return Outcome(len(runs), len(reached), frames, updates, seconds / 60)


def largest_that_pays(outcomes: Outcomes, tolerance: float) -> dict[str, int | None]:
    """By rule, the largest factor up to which all batches pay.

    Args:
      outcomes: of a preset, with its own batch size.
      tolerance: the frames that a batch may take, as a multiple of those of the preset.

    Returns:
      Multiples of the preset's batch size, 1 if no larger one pays; None if the preset itself does not reach
      the goal in all runs.
    """
    own, others = outcomes[_OWN], sorted(key for key in outcomes if key != _OWN)
    found: dict[str, int | None] = {}
    for rule in dict.fromkeys(rule for _, rule in others):
        factors = [factor for factor, other in others if other == rule]
        paying = itertools.takewhile(lambda f, r=rule: _pays(outcomes[f, r], own, tolerance), factors)
        found[rule] = max(paying, default=1) if _is_reached(own) else None
    return found


def _pays(outcome: Outcome, own: Outcome, tolerance: float) -> bool:
    return _is_reached(outcome) and _relative(outcome, own) <= tolerance


def _is_reached(outcome: Outcome) -> bool:
    return outcome.reached == outcome.runs


def _relative(outcome: Outcome, own: Outcome) -> float:
    """Frames until the goal, as a multiple of those of the preset's own batch; NaN if one has none."""
    return (outcome.frames or math.nan) / (own.frames or math.nan)


def _print(config: BatchSizeConfig, plan: dict[str, list[Setting]], results: dict[str, Outcomes]) -> None:
    columns = ["preset", "batch", "environments", "rule", "learning rate", "reached"]
    columns += ["frames to goal", "relative", "updates to goal", "minutes to goal"]
    rows = [
        _row(name, setting, results[name][setting.factor, setting.rule], results[name])
        for name, settings in plan.items()
        for setting in settings
    ]
    rules = config.rules.split(",")
    paying = {name: largest_that_pays(outcomes, config.tolerance) for name, outcomes in results.items()}
    summary = [[name, *(_times(found.get(rule)) for rule in rules)] for name, found in paying.items()]
    title = f"Largest batch that pays: the goal within {config.tolerance:g} times the frames of the preset"
    names = ["preset", *(f"rule {rule}" for rule in rules)]
    if config.markdown:
        print_markdown(columns, rows)
        print(f"\n{title}:")
        print_markdown(names, summary)
    else:
        print_table("Frames and updates until the goal, medians of the seeds that reached it", columns, rows)
        print_table(title, names, summary)


def _times(factor: int | None) -> str:
    return "-" if factor is None else f"{factor}x"


def _row(name: str, setting: Setting, found: Outcome, outcomes: Outcomes) -> list[Any]:
    case, relative = setting.case, _relative(found, outcomes[_OWN])
    return [
        name,
        case.batch_size,
        case.num_envs,
        setting.rule,
        f"{case.learning_rate:.2g}",
        f"{found.reached} of {found.runs}",
        _count(found.frames),
        None if math.isnan(relative) else relative,
        _count(found.updates),
        found.minutes,
    ]


def _count(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


if __name__ == "__main__":
    run_main(main, sys.argv)
