"""Resident memory of a long run: flat after the warm-up, or growing?

Runs the preset for small machines (Pong, V-trace) and samples the memory of the learner and every actor, or
reads the memory that the learner of another run logged (--run=LOGDIR). Growth compares the mean of the last
quarter with that of the second quarter. Flags of `seed_rl train` may be added (as --name=value) and override
the preset.
"""

import dataclasses
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

from benchmarks.harness import LocalRun, print_result, print_table, read_metrics
from seed_rl.flags.command_line import parse_options
from seed_rl.flags.errors import UsageError, run_main
from seed_rl.flags.flagfile import configs_directory
from seed_rl.launch.plan import resolve_run
from seed_rl.options import Options, option

# Resident memory in MiB by process, at times in seconds.
Samples: TypeAlias = list[tuple[float, dict[str, float]]]


@dataclasses.dataclass(frozen=True)
class MemoryConfig(Options):
    """Settings of the memory benchmark."""

    minutes: float = option(30.0, "Minutes of the run, after its first update.", above=0)
    period_secs: float = option(10.0, "Seconds between two samples of the processes.", above=0)
    row_minutes: float = option(5.0, "Minutes that a row of the table covers.", above=0)
    run: str | None = option(None, "Run directory to read instead of running.")


def main(argv: list[str]) -> int:
    """Samples or reads the memory of a run, and prints it and its growth."""
    config, rest = parse_options(argv, __doc__ or "", MemoryConfig, pass_through=True)
    if config.run is not None and rest:
        raise UsageError(f"--run reads the figures of another run; leave out {rest[0]}.")
    samples = _sample(config, rest) if config.run is None else _read(Path(config.run))
    names = [name for name in samples[0][1] if all(name in mib for _, mib in samples)]
    if not names:
        raise RuntimeError("Every process was restarted during the run, so its memory cannot be compared.")
    _print_rows(config, names, samples)
    growth = {name: _growth([(seconds, mib[name]) for seconds, mib in samples]) for name in names}
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


def _sample(config: MemoryConfig, rest: Sequence[str]) -> Samples:
    preset = configs_directory() / "small/atari_vtrace.flags"
    run_flags = [f"--flagfile={preset}", "--total_environment_frames=1000000000", *rest]
    resolve_run(["train", *run_flags])  # Bad flags end the benchmark here.
    samples: Samples = []
    with LocalRun(run_flags) as run:
        run.wait_until(lambda: bool(run.metrics()), 120, "first update")
        start = time.monotonic()
        while (now := time.monotonic() - start) <= 60 * config.minutes:
            samples.append((now, run.memory_mib()))
            due = start + len(samples) * config.period_secs
            run.wait_until(lambda due=due: time.monotonic() >= due, config.period_secs + 60, "next sample")
            print(f"{now / 60:.1f} of {config.minutes:g} minutes", end="\r", file=sys.stderr, flush=True)
    return samples


def _read(logdir: Path) -> Samples:
    """Reads the memory that the learner of a run logged."""
    lines = read_metrics(logdir)
    if not lines:
        raise UsageError(f"--run={logdir} has no metrics.jsonl with figures; name a run directory.")
    return [(line["seconds"], {"learner": line["learner_memory_mib"]}) for line in lines]


def _print_rows(config: MemoryConfig, names: Sequence[str], samples: Samples) -> None:
    bins: dict[int, list[dict[str, float]]] = {}
    for seconds, mib in samples:
        bins.setdefault(int(seconds / 60 / config.row_minutes), []).append(mib)
    rows = [
        [f"{index * config.row_minutes:g} to {(index + 1) * config.row_minutes:g}"]
        + [statistics.fmean(mib[name] for mib in members) for name in names]
        for index, members in sorted(bins.items())
    ]
    print_table("Resident memory, MiB, mean of each period", ["minutes", *names], rows)


def _growth(series: Sequence[tuple[float, float]]) -> dict[str, Any]:
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


if __name__ == "__main__":
    run_main(main, sys.argv)
