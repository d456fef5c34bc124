"""Measures `seed_rl serve`: requests/s and latencies of sessions, beside an ONNX model.

    python -m benchmarks policies

The policy is Pong's of the preset for V-trace. Clients attach with `seed_rl.connect`, each in a thread of one
of two processes, and hand over noise. The ONNX model computes one action at a time, without a server.
"""

import concurrent.futures
import dataclasses
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import seed_rl
from benchmarks.harness import module_child, print_result, print_table, running, wait_until
from seed_rl.flags.command_line import parse_options
from seed_rl.launch.child import Child
from seed_rl.options import Options, option

_SHAPE = (84, 84)
_PROCESSES = 2
_START_SECS = 120.0


@dataclasses.dataclass(frozen=True)
class PoliciesConfig(Options):
    """Settings of the benchmark of policies that are served."""

    seconds: float = option(10.0, "Seconds of each measurement.", above=0)
    rounds: int = option(2, "Rounds, in each of which everything is measured in turn.", at_least=1)
    sessions: str = option("1,64", "Numbers of sessions, with commas.")


def main(argv: list[str]) -> int:
    """Trains for a moment, serves, measures, and prints a table."""
    if argv[1:2] == ["client"]:
        print(json.dumps(_client(argv[2], int(argv[3]), float(argv[4]))))
        return 0
    if argv[1:2] == ["onnx"]:
        print(json.dumps(_onnx(argv[2], float(argv[3]))))
        return 0
    config, _ = parse_options(argv, __doc__ or "", PoliciesConfig)
    counts = [int(count) for count in config.sessions.split(",")]
    found: dict[str, list[list[float]]] = {}
    with tempfile.TemporaryDirectory(prefix="seed_rl_benchmark_") as directory:
        run, address = f"{directory}/run", f"unix:{directory}/policy"
        log = Path(directory) / "log"
        for command in (
            ("train", "atari", "vtrace", f"--logdir={run}", "--total_environment_frames=20000"),
            ("export", run, "--format=onnx"),
        ):
            _complete(module_child("seed_rl", *command, log=log))
        server = module_child("seed_rl", "serve", run, f"--server_address={address}", "--greedy", log=log)
        with running([server]):
            wait_until(lambda: "serving" in log.read_text(), [server], _START_SECS, "start of the server")
            for _ in range(config.rounds):
                for count in counts:
                    measured = _measure(address, count, config.seconds, Path(directory))
                    found.setdefault(f"{count} sessions", []).append(measured)
                alone = _result(
                    "onnx", f"{run}/policy.onnx", str(config.seconds), log=Path(directory) / "onnx"
                )
                found.setdefault("ONNX, called one by one", []).append(_figures(alone, config.seconds))
    rows = [[name, *np.median(several, axis=0).tolist()] for name, several in found.items()]
    print_table("Pong's policy", ["", "requests/s", "p50, ms", "p99, ms"], rows)
    print_result({"benchmark": "policies", "figures": found})
    return 0


def _measure(address: str, count: int, seconds: float, directory: Path) -> list[float]:
    """Requests/s, and the median and 99th percentile of latencies in ms, of so many sessions."""
    processes = min(_PROCESSES, count)
    sizes = [str(count // processes + (i < count % processes)) for i in range(processes)]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        results = [
            pool.submit(_result, "client", address, size, str(seconds), log=directory / f"client_{i}")
            for i, size in enumerate(sizes)
        ]
        return _figures([x for result in results for x in result.result()], seconds)


def _figures(latencies: list[float], seconds: float) -> list[float]:
    p50, p99 = np.percentile(latencies, [50, 99])
    return [len(latencies) / seconds, 1e3 * float(p50), 1e3 * float(p99)]


def _result(*args: str, log: Path) -> Any:
    child = module_child("benchmarks", "policies", *args, log=log)
    _complete(child)
    return json.loads(log.read_text().rstrip().rpartition("\n")[2])


def _complete(child: Child) -> None:
    with running([child]):
        wait_until(lambda: child.poll() == 0, [child], _START_SECS, f"end of {child.name}")


def _client(address: str, count: int, seconds: float) -> list[float]:
    """Latencies of requests by so many sessions, in seconds; the first second is left out."""
    begin = time.perf_counter() + 1.0
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        sessions = [pool.submit(_session, address, i, begin, begin + seconds) for i in range(count)]
        return [latency for session in sessions for latency in session.result()]


def _session(address: str, seed: int, begin: float, end: float) -> list[float]:
    observation = np.random.default_rng(seed).integers(256, size=_SHAPE, dtype=np.uint8)
    latencies = []
    with seed_rl.connect(address) as policy:
        policy.reset(observation)
        while (now := time.perf_counter()) < end:
            policy.step(observation, 0.0, False, False)
            if now > begin:
                latencies.append(time.perf_counter() - now)
    return latencies


def _onnx(path: str, seconds: float) -> list[float]:
    """Latencies of a model that is called one by one, in seconds."""
    import onnxruntime

    types = {"tensor(float)": np.float32, "tensor(int32)": np.int32, "tensor(uint8)": np.uint8}
    session = onnxruntime.InferenceSession(path)
    inputs = {x.name: np.zeros([1, *x.shape[1:]], types.get(x.type, np.bool_)) for x in session.get_inputs()}
    names, latencies, end = [x.name for x in session.get_outputs()], [], time.perf_counter() + seconds
    while (now := time.perf_counter()) < end:
        outputs = dict(zip(names, session.run(None, inputs), strict=True))
        inputs |= {name: outputs[f"next_{name}"] for name in inputs if name.startswith("state_")}
        latencies.append(time.perf_counter() - now)
    return latencies


if __name__ == "__main__":
    sys.exit(main(sys.argv))
