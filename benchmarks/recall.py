"""Recall with a long delay: the value of a memory, for both algorithms, with an LSTM and feed-forward.

Each run is `seed_rl train` with its algorithm's preset for Recall and a delay longer than R2D2's
burn-in. It ends when its mean return (R2D2: in evaluation) reaches the goal or its frames run out. Chance is
0.5. Goal: at least 0.95 with the LSTM, and chance without it.

Flags of `seed_rl train` may be added (as --name=value) and override the defaults.
"""

import dataclasses
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.harness import check_names, print_result, print_table
from benchmarks.learning_runs import make_case, train
from seed_rl.flags.command_line import parse_options
from seed_rl.flags.errors import run_main
from seed_rl.options import Options, option

GOAL = 0.95

_AGENT_FLAGS = {
    # Advantages must reach back over the whole delay.
    "vtrace": ("--unroll_length=40", "--lambda_=1", "--entropy_cost=0.003"),
    "r2d2": ("--unroll_length=40", "--burn_in=20"),
}
_MEMORY_FLAGS = {"lstm": "--lstm_size=32", "feed_forward": "--lstm_size=0"}
VARIANTS = tuple(f"{agent}_{memory}" for agent in _AGENT_FLAGS for memory in _MEMORY_FLAGS)


@dataclasses.dataclass(frozen=True)
class RecallBenchmarkConfig(Options):
    """Settings of the recall benchmark."""

    delay: int = option(30, "Agent steps between the cue and the answer.", at_least=1)
    frames: int = option(500_000, "Maximum number of environment frames of a run.", at_least=1)
    variants: str = option(",".join(VARIANTS), f"Variants, separated by commas: {', '.join(VARIANTS)}.")

    def validate(self) -> None:
        """Checks the variants."""
        check_names("variants", self.variants, tuple(VARIANTS))


def main(argv: list[str]) -> int:
    """Runs each variant and prints its mean return."""
    config, rest = parse_options(argv, __doc__ or "", RecallBenchmarkConfig, pass_through=True)
    results = {}
    for variant in config.variants.split(","):
        results[variant] = _run(config, variant, rest)
        print(f"{variant}: {results[variant]['mean_return']:.2f}", file=sys.stderr, flush=True)
    rows = [[variant, *figures.values()] for variant, figures in results.items()]
    title = f"Recall with a delay of {config.delay} agent steps; R2D2's return is from evaluation"
    print_table(title, ["variant", "mean return", "frames", "seconds"], rows)
    print_result({"benchmark": "recall", "goal": GOAL, "delay": config.delay, "figures": results})
    return 0


def _run(config: RecallBenchmarkConfig, variant: str, rest: list[str]) -> dict[str, Any]:
    """Runs a variant; returns its last mean return, with frames and seconds."""
    agent, memory = variant.split("_", 1)
    flags = [
        *_AGENT_FLAGS[agent],
        _MEMORY_FLAGS[memory],
        f"--delay={config.delay}",
        f"--total_environment_frames={config.frames}",
        *rest,
    ]
    case = make_case(f"recall/{agent}", flags)
    with tempfile.TemporaryDirectory(prefix="seed_rl_recall_") as directory:
        found = train(case, 1, Path(directory) / "run", mark=GOAL, stop_at_mark=True, minutes=0)
    return {"mean_return": found.final, "frames": found.frames, "seconds": found.seconds}


if __name__ == "__main__":
    run_main(main, sys.argv)
