"""A thousand streams at once, and what larger machines will serve.

Client processes with null environments and a hundred streams each exchange steps with the real server,
batcher and inference core, whose policy always chooses the zero action: through shared memory, through one
gateway, and over the learner's own gRPC. Memory and descriptors for each stream are measured with a thread in
the place of TensorFlow (--model=none of benchmarks.serving), which keeps no unrolls.

The last table is computed from the CPU time that a message costs the learner and its gateways. Each of them
is a Python process, so at most one core; with C cores, one is the learner's, and up to C - 1 are gateways'.
The network's own computation comes on top of that, and clients run elsewhere, or on further cores.
"""

import dataclasses
import os
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

from benchmarks.harness import check_counts, print_result, print_table, result_of
from benchmarks.scale_case import WAYS, LoadConfig
from seed_rl.flags.command_line import parse_options
from seed_rl.flags.errors import run_main
from seed_rl.options import option

# One learner of the paper.
PAPER_OBSERVATIONS_PER_SECOND = 65_000

Cases = dict[str, dict[int, dict[str, float]]]  # By way and environments in a message.


@dataclasses.dataclass(frozen=True)
class ScaleConfig(LoadConfig):
    """Settings of the benchmark."""

    envs_per_message: str = option("1,8,32", "Environments in a message, separated by commas.")
    cores: str = option("8,16,64", "Cores of the machines in the second table, separated by commas.")

    def validate(self) -> None:
        """Checks the lists."""
        check_counts("envs_per_message", self.envs_per_message)
        check_counts("cores", self.cores)


class Capacity(NamedTuple):
    """Capacity of a learner's machine.

    Attributes:
      observations_per_second: over all environments.
      gateways: how many it needs.
      bound: what limits it: the learner, or gateways.
    """

    observations_per_second: float
    gateways: int
    bound: str


def main(argv: list[str]) -> int:
    """Measures every case in a process of its own, and prints both tables."""
    config, _ = parse_options(argv, __doc__ or "", ScaleConfig)
    envs_per_message = [int(n) for n in config.envs_per_message.split(",")]
    brief = dataclasses.replace(config, warm_up_secs=min(1.0, config.warm_up_secs))
    resources = {way: _run(brief, way, envs_per_message[0], "none") for way in WAYS}
    cases: Cases = {
        way: {envs: _run(config, way, envs, "tensorflow") for envs in envs_per_message} for way in WAYS
    }
    _print_measured(config, cases, resources)
    cores = [int(n) for n in config.cores.split(",")]
    capacities = _print_capacities(cases, cores, envs_per_message)
    print_result(
        {
            "benchmark": "scale",
            "streams": config.clients * config.streams,
            "figures": cases,
            "resources": resources,
            "capacities": capacities,
            "paper": PAPER_OBSERVATIONS_PER_SECOND,
        }
    )
    return 0


def capacity(cores: int, envs: int, server_us: float, gateway_us: float) -> Capacity:
    """Capacity of a machine.

    Args:
      cores: of the machine.
      envs: environments in a message.
      server_us: microseconds of CPU time that a message costs the learner.
      gateway_us: the same for the gateways; 0: there are none.
    """
    of_learner = 1e6 / server_us
    if not gateway_us:
        return Capacity(envs * of_learner, 0, "learner")
    of_gateways = (cores - 1) * 1e6 / gateway_us
    rate = min(of_learner, of_gateways)
    needed = min(cores - 1, -int(-rate * gateway_us // 1e6))
    return Capacity(envs * rate, needed, "learner" if of_learner <= of_gateways else "gateways")


def _run(config: ScaleConfig, way: str, envs: int, model: str) -> dict[str, float]:
    flags = {f.name: getattr(config, f.name) for f in dataclasses.fields(LoadConfig)}
    flags |= {"way": way, "envs": envs, "model": model}
    print(f"{way}, {envs} environments a message, {model}", file=sys.stderr)
    seconds = config.warm_up_secs + config.seconds
    return result_of(
        "benchmarks.scale_case",
        *(f"--{name}={value}" for name, value in flags.items()),
        timeout_secs=seconds,
        env={"TF_CPP_MIN_LOG_LEVEL": "3"},
    )


def _print_measured(config: ScaleConfig, cases: Cases, resources: Mapping[str, Mapping[str, float]]) -> None:
    names = ("messages_per_second", "agent_steps_per_second", "round_trip_p50_ms", "round_trip_p99_ms")
    names += ("server_cores", "server_us_per_message", "gateway_cores", "gateway_us_per_message")
    columns = ("way", "environments", "messages/s", "observations/s", "p50 ms", "p99 ms")
    columns += ("cores learner", "us a message", "cores gateway", "us a message")
    rows = [
        [way, envs, *(figures[name] for name in names)]
        for way, by_envs in cases.items()
        for envs, figures in by_envs.items()
    ]
    streams = config.clients * config.streams
    print_table(f"{streams} streams of {config.clients} processes on {os.cpu_count()} cores", columns, rows)
    names = ("server_kib_per_stream", "gateway_kib_per_stream")
    names += ("server_descriptors_per_stream", "gateway_descriptors_per_stream")
    print_table(
        "What a stream adds, without TensorFlow",
        ("way", "KiB learner", "KiB gateway", "descriptors learner", "descriptors gateway"),
        [[way, *(figures[name] for name in names)] for way, figures in resources.items()],
    )


def _print_capacities(
    cases: Cases, all_cores: list[int], envs_per_message: list[int]
) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    rows = []
    for cores in all_cores:
        for envs in envs_per_message:
            for way in WAYS:
                figures = cases[way][envs]
                each = figures["server_us_per_message"], figures["gateway_us_per_message"]
                got = capacity(cores, envs, *each)
                found[f"{way}_{cores}_{envs}"] = got._asdict()
                ratio = got.observations_per_second / PAPER_OBSERVATIONS_PER_SECOND
                rows.append([cores, envs, way, got.observations_per_second, ratio, got.gateways, got.bound])
    columns = ("cores", "environments", "way", "observations/s", "of the paper's", "gateways", "bound by")
    print_table("What machines will serve, without the network's own computation", columns, rows)
    return found


if __name__ == "__main__":
    run_main(main)
