"""Several devices in one learner: what the parts of an update cost on 1, 2, 4, ..., and how they scale.

On a machine with GPUs, these train and infer; the figures show how many pay off. Elsewhere the CPU is split
into logical devices. They share the same cores, so that no speedup is to be expected there: the figures show
only what splitting costs. `CUDA_VISIBLE_DEVICES=-1` hides the GPUs.

The batches are random, of Pong's shape, with the networks of the presets for small machines:
--algorithm=vtrace with `configs/small/atari_vtrace.flags`, r2d2 with `configs/small/atari_r2d2_pong.flags`.
With --scaling=strong, --batch_size is that of the whole batch, whatever the number of devices; with weak, it
is that of each device. Efficiency is the speed relative to one device, divided by the number of devices.
benchmarks.update_parts defines the parts.

--baseline=DIRECTORY also compares the speed of one device, inference and training, with another checkout's
(benchmarks.baseline). Goal: at least 0.98 of it.

Flags of `seed_rl train` may be added (as --name=value) and override the presets.
"""

import dataclasses
import os
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import baseline
from benchmarks.harness import medians, print_result, print_table, result_of
from seed_rl.flags.command_line import parse_options
from seed_rl.flags.errors import run_main, usage_errors
from seed_rl.flags.flagfile import configs_directory
from seed_rl.launch.plan import resolve_run
from seed_rl.options import Options, option

GOAL = 0.98

_PRESETS = {"vtrace": "small/atari_vtrace.flags", "r2d2": "small/atari_r2d2_pong.flags"}
_ON_GPUS, _ON_A_CPU = (1, 2, 4, 8), (1, 2, 4)
_PARTS = ("distribute", "gradients", "reduction", "apply", "update", "publish")


@dataclasses.dataclass(frozen=True)
class CoresConfig(Options):
    """Settings of the benchmark of several devices."""

    devices: str = option(
        "",
        "Numbers of training devices, separated by commas; by default 1, 2, 4 and 8 GPUs as far as they "
        "exist, or else 1, 2 and 4 parts of the CPU.",
    )
    algorithm: str = option("vtrace", "Algorithm.", choices=tuple(_PRESETS))
    batch_size: int = option(32, "Unrolls in a batch: see --scaling.", at_least=1)
    scaling: str = option(
        "strong",
        "strong: --batch_size unrolls in the whole batch; weak: for each device.",
        choices=("strong", "weak"),
    )
    seconds: float = option(5.0, "Seconds for which each number of devices is measured in a round.", above=0)
    rounds: int = option(3, "Rounds, each with all numbers of devices in turn.", at_least=1)
    baseline: str = option("", "Another checkout, whose speed on one device is compared with this one's.")
    baseline_pairs: int = option(30, "Measurements of both checkouts, each of a second a part.", at_least=1)

    def validate(self) -> None:
        """Checks the numbers of devices and the other checkout."""
        words = [word.strip() for word in self.devices.split(",")] if self.devices else []
        if not all(word.isdigit() and int(word) > 0 for word in words):
            raise ValueError(
                f"--devices={self.devices} is not valid; write numbers from 1 on, separated by commas."
            )
        if self.baseline and not (Path(self.baseline) / "seed_rl").is_dir():
            raise ValueError(f"--baseline={self.baseline} is no checkout; name a directory that has seed_rl.")

    def counts(self, num_gpus: int) -> list[int]:
        """The numbers of training devices, ascending.

        Raises:
          ValueError: there are not so many GPUs, or a batch cannot be split evenly.
        """
        default = [n for n in _ON_GPUS if n <= num_gpus] if num_gpus else _ON_A_CPU
        counts = sorted({int(word) for word in self.devices.split(",")}) if self.devices else [*default]
        if num_gpus and counts[-1] > num_gpus:
            raise ValueError(
                f"--devices={self.devices} asks for more than the {num_gpus} GPUs that there are."
            )
        uneven = [n for n in counts if self.batch_size % n]
        if self.scaling == "strong" and uneven:
            raise ValueError(
                f"--batch_size={self.batch_size} cannot be split evenly over {uneven[0]} devices; change it, "
                "--devices or --scaling."
            )
        return counts

    def run_flags(self, num_devices: int, rest: Sequence[str] = ()) -> list[str]:
        """The flags of `seed_rl train` that describe the learner."""
        batch_size = self.batch_size * (num_devices if self.scaling == "weak" else 1)
        preset = configs_directory() / _PRESETS[self.algorithm]
        return [f"--flagfile={preset}", *rest, f"--batch_size={batch_size}"]


def main(argv: list[str]) -> int:
    """Measures all numbers of devices and the other checkout, and prints what they take."""
    config, rest = parse_options(argv, __doc__ or "", CoresConfig, pass_through=True)
    num_gpus = _num_gpus()
    with usage_errors():
        counts = config.counts(num_gpus)
    line = resolve_run(["train", *config.run_flags(1, rest)])  # Bad flags end the benchmark here.
    repeats = line.environment_config().num_action_repeats
    rounds = [{n: _measured(config, n, repeats, rest) for n in counts} for _ in range(config.rounds)]
    figures = {n: medians([found[n] for found in rounds]) for n in counts}
    for n in counts:
        speeds = [found[n]["unrolls_per_second"] / found[counts[0]]["unrolls_per_second"] for found in rounds]
        figures[n]["speedup"] = statistics.median(speeds) * counts[0]
        figures[n]["efficiency"] = figures[n]["speedup"] / n
    result: dict[str, Any] = {
        "benchmark": "cores",
        "devices": "GPU" if num_gpus else "CPU",
        "algorithm": config.algorithm,
        "scaling": config.scaling,
        "batch_size": config.batch_size,
        "efficiency": {n: found["efficiency"] for n, found in figures.items()},
        "figures": figures,
    }
    _print(config, figures, "GPUs" if num_gpus else "logical CPU devices, which share the cores")
    if config.baseline:
        flags = config.run_flags(1, rest)
        compared = baseline.compare(Path(config.baseline), flags, config.baseline_pairs, 1.0)
        result |= {"goal": GOAL, "baseline": compared}
        _print_baseline(config.baseline, compared)
    print_result(result)
    return 0


def _num_gpus() -> int:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    import tensorflow as tf

    return len(tf.config.list_physical_devices("GPU"))


def _measured(config: CoresConfig, count: int, repeats: int, rest: Sequence[str]) -> dict[str, float]:
    """The figures of an update on so many devices, in a process of its own: the CPU is split only once."""
    flags = config.run_flags(count, rest)
    found = result_of(
        "benchmarks.update_parts",
        str(config.seconds),
        str(count),
        *flags,
        timeout_secs=10 * config.seconds,
    )
    batch_size = config.batch_size * (count if config.scaling == "weak" else 1)
    updates = 1e3 / found["update_ms"]
    frames = found.pop("agent_steps") * repeats
    speed = {"unrolls_per_second": batch_size * updates, "frames_per_second": frames * updates}
    print(f"{count}: {speed['unrolls_per_second']:.1f} unrolls/s", file=sys.stderr, flush=True)
    return {**found, **speed}


def _print(config: CoresConfig, figures: Mapping[int, Mapping[str, float]], what: str) -> None:
    per = " for each device" if config.scaling == "weak" else ""
    title = f"Milliseconds of the parts of an update on {what}; medians of {config.rounds} rounds; "
    title += f"{config.algorithm}, {config.batch_size} unrolls in a batch{per}"
    rows = [[n, *(found[f"{part}_ms"] for part in _PARTS)] for n, found in figures.items()]
    print_table(title, ["devices", *_PARTS], rows)
    names = ("unrolls_per_second", "frames_per_second", "speedup", "efficiency")
    rows = [
        [n, *(found[name] for name in names), found["reduced_bytes"] / 1e6] for n, found in figures.items()
    ]
    columns = ["devices", "unrolls/s", "frames/s", "speedup", "efficiency", "MB reduced by each device"]
    print_table("Speed of training", columns, rows)


def _print_baseline(directory: str, found: Mapping[str, Any]) -> None:
    rows = [
        [part, *(found["agent_steps_per_second"][name][part] for name in ("this", "baseline")), ratio]
        for part, ratio in found["ratios"].items()
    ]
    title = f"One device, agent steps/s, compared with {directory}; both parts together: {found['ratio']:.3f}"
    print_table(title, ["part", "this", "baseline", "ratio"], rows)


if __name__ == "__main__":
    run_main(main, sys.argv)
