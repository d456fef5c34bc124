"""Resident memory of a long run: flat after the warm-up, or growing?

Runs the preset for small machines (Pong, V-trace) and samples the memory of the learner and every actor.
Growth compares the mean of the last quarter with that of the second quarter. Flags of `seed_rl train` may be
added (as --name=value) and override the preset.
"""

import dataclasses
import statistics
import sys
import time
from collections.abc import Sequence
from typing import Any

from benchmarks.harness import LocalRun, print_result, print_table
from seed_rl.flags.command_line import parse_options
from seed_rl.flags.errors import UsageError
from seed_rl.flags.flagfile import configs_directory
from seed_rl.launch.plan import resolve_run
from seed_rl.options import Options, option


@dataclasses.dataclass(frozen=True)
class MemoryConfig(Options):
    """Settings of the memory benchmark."""

    minutes: float = option(30.0, "Minutes of the run, after its first update.", above=0)
    period_secs: float = option(10.0, "Seconds between two samples of the processes.", above=0)


def main(argv: list[str]) -> int:
    """Samples the memory of a run, and prints it and its growth."""
    config, rest = parse_options(argv, __doc__ or "", MemoryConfig, pass_through=True)
    samples = _sample(config, rest)
    names = [name for name in samples[0][1] if all(name in mib for _, mib in samples)]
    if not names:
        raise RuntimeError("Every process was restarted during the run, so its memory cannot be compared.")
    growth = {name: growth_of([(seconds, mib[name]) for seconds, mib in samples]) for name in names}
    rows = [[name, *(float(value) for value in figures.values())] for name, figures in growth.items()]
    columns = ["process", "second quarter MiB", "last quarter MiB", "growth MiB", "growth %"]
    print_table("Growth after the warm-up", columns, rows)
    percent = {name: figures["growth_percent"] for name, figures in growth.items()}
    print_result(
        {
            "benchmark": "memory",
            "minutes": (samples[-1][0] - samples[0][0]) / 60,
            "growth_percent": percent,
            "largest_growth_percent": max(percent.values()),
            "figures": growth,
        }
    )
    return 0


def _sample(config: MemoryConfig, rest: Sequence[str]) -> list[tuple[float, dict[str, float]]]:
    """Resident memory in MiB by process, at times in seconds."""
    preset = configs_directory() / "small/atari_vtrace.flags"
    run_flags = [f"--flagfile={preset}", "--total_environment_frames=1000000000", *rest]
    resolve_run(["train", *run_flags])  # Bad flags end the benchmark here.
    samples: list[tuple[float, dict[str, float]]] = []

    def is_due() -> bool:
        return time.monotonic() >= start + len(samples) * config.period_secs

    with LocalRun(run_flags) as run:
        run.wait_until(lambda: bool(run.metrics()), 120, "first update")
        start = time.monotonic()
        while (now := time.monotonic() - start) <= 60 * config.minutes:
            samples.append((now, run.memory_mib()))
            run.wait_until(is_due, config.period_secs + 60, "next sample")
            print(f"{now / 60:.1f} of {config.minutes:g} minutes", end="\r", file=sys.stderr, flush=True)
    return samples


def growth_of(series: Sequence[tuple[float, float]]) -> dict[str, Any]:
    """Compares the means of the second and the last quarter of the time."""
    start, length = series[0][0], series[-1][0] - series[0][0]
    quarters: list[list[float]] = [[], [], [], []]
    for seconds, mib in series:
        quarters[min(3, int(4 * (seconds - start) / length)) if length else 3].append(mib)
    if not quarters[1] or not quarters[3]:
        raise UsageError("There are too few figures to compare quarters of the run; use a longer run.")
    before, after = statistics.fmean(quarters[1]), statistics.fmean(quarters[3])
    return {
        "second_quarter_mib": before,
        "last_quarter_mib": after,
        "growth_mib": after - before,
        "growth_percent": 100 * (after - before) / before,
    }
