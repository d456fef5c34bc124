"""Actors and inference with a null model, compared with a bare gRPC echo of the same bytes.

Real actor processes with null environments exchange steps with the real server, batcher and inference core
(this process), through shared memory or as messages over a unix socket (--transport). The policy always
chooses the zero action. Its unrolls are discarded where V-trace would put them into a queue
(--experience=fifo), or go to replay, compressed, as in R2D2 (--experience=replay). With --model=none, a
thread without TensorFlow answers in its place. The echo has the same number of client processes and streams,
the same kind of server and clients (asyncio), and messages of the same sizes. A second echo uses gRPC's
synchronous client, as actors did before.

Goals, relative to the echo's messages/s, for Atari: with shared memory 3 for 1 environment in a message, 2
for 8, and 1.2 for 32; with messages 0.70.

A lonely actor shows the latency: --actors=1 --streams=1 --batch_messages=1 --envs_per_message=1. Goals for
the median round trip through shared memory: 0.3 ms, and 0.08 ms with --model=none.
"""

import dataclasses
import functools
import os
import statistics
import sys
from collections.abc import Mapping
from typing import Any

from benchmarks.echo import EchoServer, message_sizes
from benchmarks.harness import check_counts, check_names, medians, print_result, print_table
from benchmarks.null_suite import SIZES
from benchmarks.serving_client import KINDS
from benchmarks.serving_parts import Case, Load, Server, measure, serve
from seed_rl.flags.command_line import parse_options
from seed_rl.flags.errors import run_main
from seed_rl.options import Options, option

# Of the echo's messages/s: (environments in a message, goal), the largest first.
GOALS = {"shared_memory": ((32, 1.2), (8, 2.0), (1, 3.0)), "grpc": ((1, 0.70),)}

# Of the median round trip of a single stream through shared memory, by model.
LATENCY_GOALS_MS = {"tensorflow": 0.3, "none": 0.08}


@dataclasses.dataclass(frozen=True)
class ServingConfig(Options):
    """Settings of the serving benchmark."""

    seconds: float = option(2.5, "Seconds of each measurement.", above=0)
    warm_up_secs: float = option(1.0, "Seconds before each measurement, with all streams busy.", at_least=0)
    rounds: int = option(3, "Rounds, each with serving and both echoes in turn.", at_least=1)
    actors: int = option(2, "Client processes.", at_least=1)
    streams: int = option(16, "Streams (environment groups) of each client process.", at_least=1)
    batch_messages: int = option(
        16,
        "Messages in a full inference batch; half of all streams lets clients and inference overlap.",
        at_least=1,
    )
    sizes: str = option("atari,vector", f"Observation sizes, separated by commas: {', '.join(SIZES)}.")
    envs_per_message: str = option("1,8,32", "Environments in a message, separated by commas.")
    transport: str = option(
        "shared_memory", "How steps travel; see the flag of actors.", choices=("grpc", "shared_memory")
    )
    num_gateways: int = option(
        0, "Processes that serve the clients in the server's place; with --transport=grpc.", at_least=0
    )
    experience: str = option(
        "fifo",
        "Where unrolls go: fifo (T = 20, discarded) or replay (burn-in 40, T = 80).",
        choices=("fifo", "replay"),
    )
    model: str = option(
        "tensorflow",
        "What answers: a null policy in TensorFlow, or none: a thread that sends zeros.",
        choices=("tensorflow", "none"),
    )

    def validate(self) -> None:
        """Checks the lists of sizes and of environments per message."""
        check_names("sizes", self.sizes, SIZES)
        check_counts("envs_per_message", self.envs_per_message)


def main(argv: list[str]) -> int:
    """Measures every case and prints its ratio to the echo."""
    config, _ = parse_options(argv, __doc__ or "", ServingConfig)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    cases = [
        Case(size, int(envs))
        for size in config.sizes.split(",")
        for envs in config.envs_per_message.split(",")
    ]
    results = {}
    for case in cases:
        rounds = []
        for _ in range(config.rounds):
            rounds.append({kind: _measure(config, case, kind) for kind in KINDS})
        results[case] = _summary(rounds)
        ratio, to_sync = results[case]["ratio"], results[case]["ratio_to_sync_echo"]
        print(f"{case.name}: {ratio:.2f} of the echo, {to_sync:.2f} of the synchronous one", file=sys.stderr)
    _print(config, results)
    return 0


def _measure(config: ServingConfig, case: Case, kind: str) -> dict[str, float]:
    """One measurement: figures by name."""
    num_gateways = config.num_gateways if kind == "serving" else 0
    load = Load(kind, case, config.actors, config.streams, config.transport, num_gateways)
    return measure(load, functools.partial(_start_server, config, load), config.warm_up_secs, config.seconds)


def _start_server(config: ServingConfig, load: Load, address: str) -> Server:
    case = load.case
    if load.kind != "serving":
        return EchoServer(address, bytes(message_sizes(*case)[1]))
    most = min(config.batch_messages * case.envs, load.num_envs)
    return serve(address, load, most, config.model, replay=config.experience == "replay")


def _summary(rounds: list[dict[str, dict[str, float]]]) -> dict[str, Any]:
    rate = "messages_per_second"

    def ratio(kind: str) -> float:
        return statistics.median(r["serving"][rate] / r[kind][rate] for r in rounds)

    return {
        "ratio": ratio("echo"),
        "ratio_to_sync_echo": ratio("sync_echo"),
        **{kind: medians([r[kind] for r in rounds]) for kind in KINDS},
    }


def goal(config: ServingConfig, envs: int) -> float | None:
    """The goal for messages of so many environments, relative to the echo's messages/s, if there is one."""
    if _is_lonely(config):
        return None
    return next(ratio for least, ratio in GOALS[config.transport] if envs >= least)


def _is_lonely(config: ServingConfig) -> bool:
    """Whether the latency is measured, instead of the throughput."""
    return config.transport == "shared_memory" and config.actors * config.streams == 1


def _print(config: ServingConfig, results: Mapping[Case, Any]) -> None:
    names = ("messages_per_second", "agent_steps_per_second", "round_trip_p50_ms", "round_trip_p99_ms")
    names += ("inference_latency_p50_ms", "inference_latency_p99_ms", "server_cores", "server_us_per_message")
    names += ("gateway_cores", "client_cores")
    columns = ("observation", "environments", "kind", "messages/s", "agent steps/s", "p50 ms", "p99 ms")
    columns += ("in server p50", "p99", "cores server", "us a message")
    columns += ("gateways", "each client", "serving relative to it", "goal")
    rows = []
    for case, result in results.items():
        for kind in KINDS:
            ratio = {"echo": result["ratio"], "sync_echo": result["ratio_to_sync_echo"]}.get(kind, "")
            figures = [result[kind].get(name, "") for name in names]
            aim = (goal(config, case.envs) or "") if kind == "echo" else ""
            rows.append([case.size, case.envs, kind, *figures, ratio, aim])
    title = (
        f"Serving ({config.transport}, model {config.model}, {config.experience}): {config.actors} client "
        f"processes x {config.streams} streams, medians of {config.rounds} rounds; p50 and p99 of the round "
        "trip seen by a client"
    )
    print_table(title, columns, rows)
    ratios = {case.name: result["ratio"] for case, result in results.items()}
    latencies = {case.name: result["serving"]["round_trip_p50_ms"] for case, result in results.items()}
    print_result(
        {
            "benchmark": "serving",
            "transport": config.transport,
            "model": config.model,
            "experience": config.experience,
            "goals": {case.name: goal(config, case.envs) for case in results},
            "latency_goal_ms": LATENCY_GOALS_MS[config.model] if _is_lonely(config) else None,
            "latencies_p50_ms": latencies,
            "ratios": ratios,
            "lowest_ratio": min(ratios.values()),
            "ratios_to_sync_echo": {case.name: r["ratio_to_sync_echo"] for case, r in results.items()},
            "figures": {case.name: result for case, result in results.items()},
        }
    )


if __name__ == "__main__":
    run_main(main)
