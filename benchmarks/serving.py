"""Actors and inference with a null model, compared with a bare gRPC echo of the same bytes.

Real actor processes with null environments exchange steps with the real server, batcher and inference core
(this process), through shared memory or as messages over a unix socket (--transport). The policy always
chooses the zero action, and its unrolls are discarded where V-trace would put them into a queue. With
--model=none, a thread without TensorFlow answers in its place. The echo has the same number of client
processes and streams, the same kind of server and clients (asyncio), and messages of the same sizes.

A lonely actor shows the latency: --actors=1 --streams=1 --batch_messages=1 --envs_per_message=1. The goals
are in docs/benchmarks.md.

With --baseline=CHECKOUT, another checkout of this repository measures the same in turn: in each round, each
checkout's own benchmark runs in a process of its own.
"""

import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from benchmarks.harness import (
    ROOT,
    check_counts,
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
from benchmarks.serving_client import Client
from benchmarks.serving_parts import Case, EchoServer, Serving, zeros
from seed_rl.flags.command_line import parse_options
from seed_rl.launch.child import ACTOR_ENV, Child
from seed_rl.options import Options, option
from seed_rl.serving.gateway import gateway_addresses

KINDS = ("serving", "echo")

_START_TIMEOUT_SECS = 60.0


@dataclasses.dataclass(frozen=True)
class ServingConfig(Options):
    """Settings of the serving benchmark."""

    seconds: float = option(2.5, "Seconds of each measurement.", above=0)
    warm_up_secs: float = option(1.0, "Seconds before each measurement, with all streams busy.", at_least=0)
    rounds: int = option(3, "Rounds, each with serving and the echo in turn.", at_least=1)
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
    model: str = option(
        "tensorflow",
        "What answers: a null policy in TensorFlow, or none: a thread that sends zeros.",
        choices=("tensorflow", "none"),
    )
    baseline: str = option("", "Another checkout of this repository, with which each round compares.")

    def validate(self) -> None:
        """Checks the lists of sizes and of environments per message, and the other checkout."""
        check_names("sizes", self.sizes, SIZES)
        check_counts("envs_per_message", self.envs_per_message)
        if self.baseline and not (Path(self.baseline) / "benchmarks" / "serving.py").is_file():
            raise ValueError(
                f"--baseline={self.baseline} is no checkout; name a directory that has benchmarks/serving.py."
            )


def main(argv: list[str]) -> int:
    """Measures every case and prints its ratio to the echo."""
    config, _ = parse_options(argv, __doc__ or "", ServingConfig)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    sizes, counts = config.sizes.split(","), config.envs_per_message.split(",")
    results: dict[Case, dict[str, Any]] = {}
    for case in [Case(size, int(envs)) for size in sizes for envs in counts]:
        rounds = [_round(config, case) for _ in range(config.rounds)]
        results[case] = {kind: medians([r[kind] for r in rounds]) for kind in rounds[0]}
        for kind in ("echo", "baseline"):
            if kind in rounds[0]:
                ratio = statistics.median(
                    r["serving"]["messages_per_second"] / r[kind]["messages_per_second"] for r in rounds
                )
                results[case][f"ratio_to_{kind}"] = ratio
                print(f"{case.name}: {ratio:.2f} of the {kind}", file=sys.stderr, flush=True)
    _print(config, results)
    return 0


def _round(config: ServingConfig, case: Case) -> dict[str, dict[str, float]]:
    """Figures by kind, of `baseline` too if there is one."""
    if not config.baseline:
        return {kind: _measure(config, case, kind) for kind in KINDS}
    mine, other = (_of_checkout(path, config, case) for path in (ROOT, Path(config.baseline).resolve()))
    return {**{kind: mine[kind] for kind in KINDS}, "baseline": other["serving"]}


def _of_checkout(checkout: Path, config: ServingConfig, case: Case) -> dict[str, dict[str, float]]:
    """One round of a checkout's own benchmark: figures by kind."""
    is_new = (checkout / "benchmarks" / "__main__.py").is_file()
    here = {**config.to_dict(), "sizes": case.size, "envs_per_message": case.envs, "rounds": 1}
    flags = [f"--{name}={value}" for name, value in here.items() if name != "baseline"]
    done = subprocess.run(
        [sys.executable, "-m", *(("benchmarks", "serving") if is_new else ("benchmarks.serving",)), *flags],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": str(checkout)},
        stdout=subprocess.PIPE,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"The benchmark of {checkout} ended with exit code {done.returncode}.")
    return json.loads(done.stdout.splitlines()[-1])["figures"][case.name]


def _measure(config: ServingConfig, case: Case, kind: str) -> dict[str, float]:
    """One measurement: figures by name."""
    num_gateways = config.num_gateways if kind == "serving" else 0
    with tempfile.TemporaryDirectory(prefix="seed_rl_benchmark_") as directory:
        address = f"unix:{directory}/socket"
        gateways = gateway_addresses(address, num_gateways)
        outputs = [Path(directory) / f"client_{task}.npy" for task in range(config.actors)]
        clients = [
            _client(config, case, kind, gateways[task % len(gateways)] if gateways else address, task, output)
            for task, output in enumerate(outputs)
        ]
        server = _start_server(config, case, kind, address)
        try:
            paths = [Path(gateway.removeprefix("unix:")) for gateway in gateways]
            wait_until(lambda: all(path.exists() for path in paths), (), _START_TIMEOUT_SECS, "gateway")
            with running(clients):
                streams = config.actors * config.streams
                wait_until(
                    lambda: server.streams == streams, clients, _START_TIMEOUT_SECS, "stream of every client"
                )
                if kind == "serving" and config.model == "tensorflow":
                    # The first inference call may take longer than the whole warm-up.
                    answered = lambda: "inference_batch_size" in server.figures()  # noqa: E731
                    wait_until(answered, clients, _START_TIMEOUT_SECS, "first answer")
                time.sleep(config.warm_up_secs)
                figures, window = _observe(server, clients, config.seconds)
                for client in clients:
                    client.terminate()
                finish(clients, 30)
        finally:
            server.stop()
        trips = np.concatenate([np.load(output) for output in outputs], axis=1)
    found = _round_trips(trips, window, case.envs)
    cores = {"client": config.actors * figures["client_cores"]}
    cores |= {who: figures[f"{who}_cores"] for who in ("server", "gateway")}
    costs = {f"{who}_us_per_message": 1e6 * n / found["messages_per_second"] for who, n in cores.items()}
    return {**figures, **found, **costs}


def _start_server(config: ServingConfig, case: Case, kind: str, address: str) -> Serving | EchoServer:
    if kind == "echo":
        return EchoServer(address, bytes(case.message_bytes[1]))
    num_envs = config.actors * config.streams * case.envs
    batch_size = min(config.batch_messages * case.envs, num_envs)
    of = (address, case, num_envs, batch_size, config.num_gateways)
    if config.model == "none":
        return Serving(*of, zeros(case))
    from benchmarks.null_serving import null_core  # Imports TensorFlow.

    core = null_core(case.spec, num_envs)
    return Serving(*of, core.serve, core.metrics.take)


def _client(config: ServingConfig, case: Case, kind: str, address: str, task: int, output: Path) -> Child:
    client = Client(kind, address, task, case.size, case.envs, config.streams, config.transport, str(output))
    log = output.with_suffix(".log")
    return module_child("benchmarks.serving_client", json.dumps(client), log=log, env=ACTOR_ENV)


def _observe(
    server: Serving | EchoServer, clients: Sequence[Child], seconds: float
) -> tuple[dict[str, float], tuple[float, float]]:
    """Lets it run; returns the figures and the time window, in seconds of the monotonic clock."""
    server.figures()
    processes = {
        "server": [psutil.Process()],
        "client": [psutil.Process(client.pid) for client in clients],
        "gateway": [psutil.Process(pid) for pid in server.gateway_pids],
    }

    def cores() -> dict[str, float]:
        """The cores that were used since the last call."""
        return {
            who: sum(p.cpu_percent() / 100 for p in several) / (len(several) if who == "client" else 1)
            for who, several in processes.items()
        }

    cores()
    start = time.monotonic()
    time.sleep(seconds)
    window = (start, time.monotonic())
    figures = {f"{who}_cores": used for who, used in cores().items()}
    return {**figures, **server.figures()}, window


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


_COLUMNS = {
    "messages/s": "messages_per_second",
    "agent steps/s": "agent_steps_per_second",
    "p50 ms": "round_trip_p50_ms",
    "p99 ms": "round_trip_p99_ms",
    "in server p50": "inference_latency_p50_ms",
    "p99": "inference_latency_p99_ms",
    "cores server": "server_cores",
    "gateways": "gateway_cores",
    "each client": "client_cores",
    "us a message server": "server_us_per_message",
    "gateway": "gateway_us_per_message",
    "client": "client_us_per_message",
}


def _print(config: ServingConfig, results: Mapping[Case, Any]) -> None:
    rows = []
    for case, result in results.items():
        for kind in [kind for kind in (*KINDS, "baseline") if kind in result]:
            figures = [result[kind].get(name, "") for name in _COLUMNS.values()]
            rows.append([case.size, case.envs, kind, *figures, result.get(f"ratio_to_{kind}", "")])
    title = (
        f"Serving ({config.transport}, model {config.model}): {config.actors} client "
        f"processes x {config.streams} streams, medians of {config.rounds} rounds; p50 and p99 of the round "
        "trip seen by a client"
    )
    columns = ["observation", "environments", "kind", *_COLUMNS, "serving relative to it"]
    print_table(title, columns, rows)
    named = {case.name: result for case, result in results.items()}
    found = {
        "benchmark": "serving",
        "transport": config.transport,
        "model": config.model,
        "latencies_p50_ms": {name: r["serving"]["round_trip_p50_ms"] for name, r in named.items()},
        "ratios": {name: r["ratio_to_echo"] for name, r in named.items()},
        "figures": named,
    }
    if config.baseline:
        found["ratios_to_baseline"] = {name: r["ratio_to_baseline"] for name, r in named.items()}
    print_result(found)
