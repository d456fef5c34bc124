"""SEED against IMPALA: the same training with central inference, and with actors that hold the policy.

Each case is trained in three ways: `actor` (--inference=actor), and central inference with steps as `grpc`
messages or through `shared_memory`. What one axis varies, the others keep at the first case: V-trace with
Nature-CNN on Pong, two actors of four environments.

* environments in an actor: 1, 4, 16;
* network: feed-forward, an LSTM of 256 units, IMPALA's deep ResNet;
* width of the network: 1, 2, 4 (SEED RL, section 4.4.1);
* environment: Pong, and the observations of DeepMind Lab, with three widths of its network, and of Football,
  with three sizes of its map, in environments that work as long as the engines do (benchmarks.null_suite).

A row has environment frames/s, CPU seconds for 1,000 frames on actors and learner, the cores that these
allocate (one for each actor process; the learner's use, rounded up), bytes a frame that actors send and
receive, policy lag in updates at the first and the last step of an unroll, the spread of versions within an
unroll (Figure 2), and the median time of an actor from a step to its actions. Runs that --output has already,
with their cores, are not run again. A picture of speed and CPU seconds is written beside it. `seed_rl report
--table=4` and others read it.

Flags of `seed_rl train` may be added (as --name=value) and override the defaults.
"""

import dataclasses
import itertools
import json
import math
import re
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.harness import check_names, make_directory, medians, print_result, print_table, steady_run
from seed_rl.environments import registry as environments
from seed_rl.environments.making import suite_spec
from seed_rl.files import read_mapping, write_atomically
from seed_rl.flags.command_line import parse_options
from seed_rl.flags.errors import usage_errors
from seed_rl.flags.settings import Settings
from seed_rl.launch.plan import LocalConfig, resolve_run
from seed_rl.options import Options, option
from seed_rl.wire.codec import ActionCodec, StepCodec
from seed_rl.wire.frames import actions_frames, step_frames

_COMMON = f"--flagfile={Path(__file__).with_suffix('.flags')}"
_PONG = ("--environment=atari", "--game=Pong", "--full_action_space=false")
_NULL = ("--environment=gym", "--game=benchmarks.null_suite:Null")
_DMLAB = (_NULL[0], f"{_NULL[1]}DMLab-v0", "--torso=resnet", "--lstm_size=256", "--frame_stack=1")
_FOOTBALL = "--torso=football"
CASES: dict[str, tuple[str, ...]] = {
    "pong": _PONG,
    "envs_1": (*_PONG, "--env_batch_size=1", "--batch_size=2"),
    "envs_16": (*_PONG, "--env_batch_size=16", "--batch_size=16"),
    "lstm": (*_PONG, "--lstm_size=256"),
    "resnet": (*_PONG, "--torso=resnet"),
    "width_2": (*_PONG, "--network_width=2"),
    "width_4": (*_PONG, "--network_width=4"),
    "dmlab": _DMLAB,
    "dmlab_width_2": (*_DMLAB, "--network_width=2"),
    "dmlab_width_4": (*_DMLAB, "--network_width=4"),
    "football": (_NULL[0], f"{_NULL[1]}Football-v0", _FOOTBALL),
    "football_medium": (_NULL[0], f"{_NULL[1]}FootballMedium-v0", _FOOTBALL),
    "football_large": (_NULL[0], f"{_NULL[1]}FootballLarge-v0", _FOOTBALL),
}
WAYS = {
    "actor": ("--inference=actor",),
    "grpc": ("--transport=grpc",),
    "shared_memory": ("--transport=shared_memory",),
}


@dataclasses.dataclass(frozen=True)
class ImpalaConfig(Options):
    """Settings of the comparison."""

    seconds: float = option(12.0, "Seconds of each run that are measured.", above=0)
    warm_up_secs: float = option(6.0, "Seconds after the first update that are not measured.", at_least=0)
    rounds: int = option(1, "Rounds, each with all cases and ways in turn.", at_least=1)
    cases: str = option(",".join(CASES), "Cases, separated by commas.")
    output: str = option("runs/impala.json", "Results so far; those that it has are not measured again.")

    def validate(self) -> None:
        """Checks the cases."""
        check_names("cases", self.cases, tuple(CASES))


def main(argv: list[str]) -> int:
    """Measures what is missing; prints tables and the result."""
    config, rest = parse_options(argv, __doc__ or "", ImpalaConfig, pass_through=True)
    path = Path(config.output)
    make_directory("output", str(path.parent))
    with usage_errors():
        results: dict[str, dict[str, float]] = read_mapping("output", path) if path.exists() else {}
    cases = config.cases.split(",")
    for number, case, way in itertools.product(range(config.rounds), cases, WAYS):
        if "learner_cores" not in results.get(key := f"{case}/{way}/{number}", {}):
            results[key] = measure(case, way, config, rest)
            write_atomically(path, json.dumps(results, indent=1))
            speed = f"{results[key]['frames_per_second']:,.0f} frames/s"
            print(f"{key}: {speed}", file=sys.stderr, flush=True)
    table = {
        (case, way): medians([results[f"{case}/{way}/{number}"] for number in range(config.rounds)])
        for case in cases
        for way in WAYS
    }
    columns = list(next(iter(table.values())))
    rows = [[case, way, *figures.values()] for (case, way), figures in table.items()]
    print_table("SEED against IMPALA", ["case", "way", *(c.replace("_", " ") for c in columns)], rows)
    draw(table, path.with_suffix(".png"))
    print_result({f"{case}/{way}": figures for (case, way), figures in table.items()})
    return 0


def measure(case: str, way: str, config: ImpalaConfig, rest: Sequence[str] = ()) -> dict[str, float]:
    """One run: the figures of a row."""
    flags = [_COMMON, *CASES[case], *WAYS[way], *rest]
    line = resolve_run(["train", *flags], "")
    run = steady_run(flags, config.warm_up_secs, config.seconds)
    speed = run.frames_per_second

    def mean(name: str) -> float:
        return statistics.fmean(period.get(name, 0.0) for period in run.periods)

    if way == "actor":
        sent, received = (mean(f"{what}_mib_per_second") * 2**20 / speed for what in ("unrolls", "weights"))
    else:
        sent, received = message_bytes(line)
    return {
        "frames_per_second": speed,
        "actor_cpu_secs_per_1000": 1e3 * mean("actor_cpu_cores") / speed,
        "learner_cpu_secs_per_1000": 1e3 * mean("learner_cpu_cores") / speed,
        "actor_cores": line.read(LocalConfig).num_actors,
        "learner_cores": max(1, math.ceil(mean("learner_cpu_cores"))),
        "bytes_sent_per_frame": sent,
        "bytes_received_per_frame": received,
        "lag_first_updates": mean("policy_lag_first_updates"),
        "lag_last_updates": mean("policy_lag_last_updates"),
        "version_spread_updates": mean("version_spread_mean_updates"),
        "actor_latency_ms": statistics.fmean(map(latency_ms, run.actor_logs)),
    }


def message_bytes(line: Settings) -> tuple[float, float]:
    """Bytes a frame that an actor sends and receives with central inference, if they travel as messages."""
    local, config = line.read(LocalConfig), line.environment_config()
    spec = suite_spec(environments.suite(line.environment), config, 0)
    size = local.env_batch_size // (line.values["num_env_groups"])
    record, action = size * StepCodec(spec).record_bytes, size * ActionCodec(spec.action).action_bytes
    sent = record + len(step_frames(1, record).prefixes[0])
    received = action + len(actions_frames(1, action).prefixes[0])
    return sent / size / spec.num_action_repeats, received / size / spec.num_action_repeats


def latency_ms(log: str) -> float:
    """The median that an actor's log ends with."""
    found = re.findall(r"From a step to its actions: ([\d.]+) ms", log)
    if not found:
        raise RuntimeError(f"An actor's log has no latency: {log[-500:]}")
    return float(found[-1])


def draw(table: Mapping[tuple[str, str], Mapping[str, float]], path: Path) -> None:
    """Draws speed and CPU seconds of each case and way, relative to those of actors that act."""
    from matplotlib.figure import Figure

    cases = list(dict.fromkeys(case for case, _ in table))
    speeds = {key: row["frames_per_second"] for key, row in table.items()}
    columns = [f"{who}_cpu_secs_per_1000" for who in ("actor", "learner")]
    seconds = {key: [row[name] for name in columns] for key, row in table.items()}
    figure = Figure((10, 0.55 * len(cases) + 1.5), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    height = 0.8 / len(WAYS)
    for place, (way, color) in enumerate(zip(WAYS, ("C1", "C0", "C2"), strict=True)):
        y = [number + (place - 1) * height for number in range(len(cases))]
        ratios = [speeds[case, way] / speeds[case, "actor"] for case in cases]
        bars = left.barh(y, ratios, height, color=color, label=way)
        left.bar_label(bars, [f"{speeds[case, way]:,.0f}" for case in cases], fontsize=7, padding=2)
        shares = [np.divide(seconds[case, way], sum(seconds[case, "actor"])) for case in cases]
        actors, learner = zip(*shares, strict=True)
        right.barh(y, actors, height, color=color)
        bars = right.barh(y, learner, height, left=actors, color=color, alpha=0.5, hatch="//")
        right.bar_label(bars, [f"{sum(seconds[case, way]):.2f}" for case in cases], fontsize=7, padding=2)
    titles = ("Environment frames/s", "CPU seconds for 1,000 frames: actors, and learner (hatched)")
    for axis, title in zip((left, right), titles, strict=True):
        axis.set_title(title, fontsize=10)
        axis.set_xlabel("relative to actors that act")
        axis.set_yticks(range(len(cases)), cases)
        axis.axvline(1, color="black", linewidth=0.8)
        axis.margins(x=0.12)
    left.invert_yaxis()
    figure.legend(loc="outside upper center", ncols=len(WAYS), fontsize=9)
    figure.savefig(path, dpi=110)
