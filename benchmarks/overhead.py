"""The cost of logging, checkpoints and evaluation environments: the same run with and without them.

* `logging`: V-trace on Pong with metrics and TensorBoard scalars every second and a checkpoint every 10 s
  (the defaults are 10 and 600 s), compared with metrics every 10 s and no checkpoint.
* `evaluation`: R2D2 on Pong with 20 environments that train and 4 that evaluate, compared with just the 20
  that train. Only training frames count, and training limits the speed (replay ratio 4, as in the preset).

The runs of a pair alternate, round by round, because the machine's speed drifts. Goal: at least 0.97.

Flags of `seed_rl train` may be added (as --name=value) and override the defaults.
"""

import dataclasses
import statistics
import sys
from typing import Any

from benchmarks.harness import check_names, print_result, print_table, steady_run
from seed_rl.flags.command_line import parse_options
from seed_rl.flags.errors import run_main
from seed_rl.flags.flagfile import configs_directory
from seed_rl.options import Options, option

GOAL = 0.97

_PONG = {
    "vtrace": f"--flagfile={configs_directory()}/small/atari_vtrace.flags",
    "r2d2": f"--flagfile={configs_directory()}/small/atari_r2d2_pong.flags",
}
# For each variant, the flags of the run with it and of the run without it.
VARIANTS = {
    "logging": (
        (_PONG["vtrace"], "--log_period_secs=1", "--save_checkpoint_secs=10"),
        (_PONG["vtrace"], "--log_period_secs=10", "--save_checkpoint_secs=1e6"),
    ),
    "evaluation": (
        (
            _PONG["r2d2"],
            "--log_period_secs=2",
            "--replay_buffer_min_size=200",
            "--env_batch_size=12",
            "--num_eval_envs=4",
        ),
        (
            _PONG["r2d2"],
            "--log_period_secs=2",
            "--replay_buffer_min_size=200",
            "--env_batch_size=10",
            "--num_eval_envs=0",
        ),
    ),
}


@dataclasses.dataclass(frozen=True)
class OverheadConfig(Options):
    """Settings of the overhead benchmark."""

    seconds: float = option(30.0, "Seconds of each run that are measured.", above=0)
    warm_up_secs: float = option(
        10.0, "Seconds of warm-up of each run after its first update; not measured.", at_least=0
    )
    rounds: int = option(3, "Rounds, each with both runs in turn.", at_least=1)
    variants: str = option(",".join(VARIANTS), f"Variants, separated by commas: {', '.join(VARIANTS)}.")

    def validate(self) -> None:
        """Checks the variants."""
        check_names("variants", self.variants, tuple(VARIANTS))


def main(argv: list[str]) -> int:
    """Runs each variant with and without its cost, and prints the ratios of their speeds."""
    config, rest = parse_options(argv, __doc__ or "", OverheadConfig, pass_through=True)
    results: dict[str, Any] = {}
    for variant in config.variants.split(","):
        speeds: dict[str, list[float]] = {"with": [], "without": []}
        for _ in range(config.rounds):
            for name, flags in zip(speeds, VARIANTS[variant], strict=True):
                run = steady_run([*flags, *rest], config.warm_up_secs, config.seconds)
                speeds[name].append(run.frames_per_second)
        ratios = [a / b for a, b in zip(*speeds.values(), strict=True)]
        results[variant] = {name: statistics.median(values) for name, values in speeds.items()}
        results[variant] |= {"ratio": statistics.median(ratios), "ratios": ratios}
        print(f"{variant}: {results[variant]['ratio']:.3f}", file=sys.stderr, flush=True)
    rows = [[name, r["with"], r["without"], r["ratio"]] for name, r in results.items()]
    title = f"Training frames/s with and without, medians of {config.rounds} rounds"
    print_table(title, ["variant", "with", "without", "ratio"], rows)
    ratios_by_variant = {name: result["ratio"] for name, result in results.items()}
    print_result({"benchmark": "overhead", "goal": GOAL, "ratios": ratios_by_variant, "figures": results})
    return 0


if __name__ == "__main__":
    run_main(main, sys.argv)
