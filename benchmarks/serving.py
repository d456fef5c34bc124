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
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.constant_serving import ConstantServing
from benchmarks.echo import EchoServer, message_sizes
from benchmarks.harness import (
    check_names,
    finish,
    medians,
    module_child,
    print_result,
    print_table,
    running,
    wait_until,
)
from benchmarks.null_suite import SIZES
from benchmarks.serving_client import KINDS
from seed_rl.flags.command_line import parse_options
from seed_rl.flags.errors import run_main
from seed_rl.launch.child import ACTOR_ENV
from seed_rl.options import Options, option
from seed_rl.reporting.cpu import CpuUse
from seed_rl.wire.gateways import gateway_addresses

# Of the echo's messages/s: (environments in a message, goal), the largest first.
GOALS = {"shared_memory": ((32, 1.2), (8, 2.0), (1, 3.0)), "grpc": ((1, 0.70),)}

# Of the median round trip of a single stream through shared memory, by model.
LATENCY_GOALS_MS = {"tensorflow": 0.3, "none": 0.08}

_START_TIMEOUT_SECS = 60.0


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
        if not all(n.isdigit() and int(n) > 0 for n in self.envs_per_message.split(",")):
            raise ValueError(
                f"--envs_per_message={self.envs_per_message} is not valid; write it like 1,8,32."
            )


class Case(NamedTuple):
    """One case of the benchmark: an observation size and a number of environments in a message."""

    size: str
    envs: int

    @property
    def name(self) -> str:
        """The name of the case in the result."""
        return f"{self.size}_{self.envs}"


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
    with tempfile.TemporaryDirectory(prefix="seed_rl_benchmark_") as directory:
        address = f"unix:{directory}/socket"
        outputs = [Path(directory) / f"client_{task}.npy" for task in range(config.actors)]
        clients = [
            module_child(
                "benchmarks.serving_client",
                f"--kind={kind}",
                f"--server_address={_address_for(config, kind, address, task)}",
                f"--task={task}",
                f"--size={case.size}",
                f"--envs_per_message={case.envs}",
                f"--streams={config.streams}",
                f"--transport={config.transport}",
                f"--output={output}",
                log=output.with_suffix(".log"),
                env=ACTOR_ENV,
            )
            for task, output in enumerate(outputs)
        ]
        server = _start_server(config, case, kind, address)
        try:
            with running(clients):
                streams = config.actors * config.streams
                wait_until(
                    lambda: server.streams == streams, clients, _START_TIMEOUT_SECS, "stream of every client"
                )
                # The first inference call may take longer than the whole warm-up.
                wait_until(server.has_answered, clients, _START_TIMEOUT_SECS, "first answer")
                time.sleep(config.warm_up_secs)
                pids = {f"client {task}": client.pid or 0 for task, client in enumerate(clients)}
                pids |= {f"gateway {pid}": pid for pid in server.gateway_pids}
                figures, window = _observe(config, server, {"server": os.getpid(), **pids})
                for client in clients:
                    client.terminate()
                finish(clients, 30)
        finally:
            server.stop()
        trips = np.concatenate([np.load(output) for output in outputs], axis=1)
    trip_figures = _round_trips(trips, window, case.envs)
    rate = trip_figures["messages_per_second"]
    return {**figures, **trip_figures, "server_us_per_message": 1e6 * figures["server_cores"] / rate}


def _address_for(config: ServingConfig, kind: str, address: str, task: int) -> str:
    """Where a client connects."""
    gateways = gateway_addresses(address, config.num_gateways if kind == "serving" else 0)
    return gateways[task % len(gateways)] if gateways else address


def _start_server(config: ServingConfig, case: Case, kind: str, address: str) -> Any:
    if kind != "serving":
        return EchoServer(address, bytes(message_sizes(*case)[1]))
    num_envs = config.actors * config.streams * case.envs
    what = (address, case.size, num_envs, case.envs, min(config.batch_messages * case.envs, num_envs))
    if config.model == "none":
        return ConstantServing(*what, num_gateways=config.num_gateways)
    from benchmarks.null_serving import NullServing  # Imports TensorFlow.

    return NullServing(*what, replay=config.experience == "replay", num_gateways=config.num_gateways)


def _observe(
    config: ServingConfig, server: Any, pids: Mapping[str, int]
) -> tuple[dict[str, float], tuple[float, float]]:
    """Lets it run; returns the figures and the time window, in seconds of the monotonic clock."""
    server.inference_figures()
    cpu = CpuUse(pids)
    start = time.monotonic()
    time.sleep(config.seconds)
    window = (start, time.monotonic())
    cores = cpu.take()
    clients = [use for name, use in cores.items() if name.startswith("client")]
    gateways = [use for name, use in cores.items() if name.startswith("gateway")]
    figures = {
        "server_cores": cores["server"],
        "client_cores": statistics.fmean(clients),
        "gateway_cores": sum(gateways),
    }
    return {**figures, **server.inference_figures()}, window


def _round_trips(trips: np.ndarray, window: tuple[float, float], envs: int) -> dict[str, float]:
    ended, seconds = trips
    inside = (ended >= window[0]) & (ended < window[1])
    if not inside.any():
        raise RuntimeError("No message was answered during the measurement; raise --seconds.")
    rate = float(inside.sum()) / (window[1] - window[0])
    p50, p99 = np.percentile(1e3 * seconds[inside], [50, 99])
    return {
        "messages_per_second": rate,
        "agent_steps_per_second": rate * envs,
        "round_trip_p50_ms": float(p50),
        "round_trip_p99_ms": float(p99),
    }


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
