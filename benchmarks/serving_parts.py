"""Client processes with many streams, a server in this process, and what both use."""

import contextlib
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import psutil

from benchmarks.constant_serving import ConstantServing
from benchmarks.harness import finish, module_child, running, wait_until
from seed_rl.launch.child import ACTOR_ENV, Child
from seed_rl.serving.gateway import gateway_addresses

_START_TIMEOUT_SECS = 60.0


class Case(NamedTuple):
    """An observation size and a number of environments in a message."""

    size: str
    envs: int

    @property
    def name(self) -> str:
        """The name of the case in the result."""
        return f"{self.size}_{self.envs}"


class Load(NamedTuple):
    """Client processes of `serving_client`.

    Attributes:
      kind: of the clients, one of `serving_client.KINDS`.
      case: what they send.
      clients: how many processes there are.
      streams: of each process.
      transport: how steps travel, of the kind `serving`.
      num_gateways: how many processes serve them in the server's place.
    """

    kind: str
    case: Case
    clients: int
    streams: int
    transport: str
    num_gateways: int

    @property
    def num_envs(self) -> int:
        """All environments."""
        return self.clients * self.streams * self.case.envs


class Server(Protocol):
    """Server of the clients."""

    streams: int

    @property
    def gateway_pids(self) -> list[int]: ...  # noqa: D102
    def inference_figures(self) -> dict[str, float]: ...  # noqa: D102
    def has_answered(self) -> bool: ...  # noqa: D102
    def stop(self) -> None: ...  # noqa: D102


def serve(
    address: str, load: Load, batch_size: int, model: str, replay: bool = False, unroll_length: int = 20
) -> Server:
    """Starts the real server, with batches of at most so many environments.

    Args:
      address: where to listen.
      load: the clients.
      batch_size: most environments in a batch.
      model: what answers: `tensorflow`, a null policy, or `none`, a thread that sends zeros.
      replay: whether unrolls go to replay, with TensorFlow.
      unroll_length: agent steps of unrolls that do not.
    """
    what = (address, load.case.size, load.num_envs, load.case.envs, batch_size)
    if model == "none":
        return ConstantServing(*what, num_gateways=load.num_gateways)
    from benchmarks.null_serving import NullServing  # Imports TensorFlow.

    return NullServing(*what, replay=replay, num_gateways=load.num_gateways, unroll_length=unroll_length)


def measure(
    load: Load, start_server: Callable[[str], Server], warm_up_secs: float, seconds: float
) -> dict[str, float]:
    """Starts a server at the address that it is given, and the clients; returns figures by name."""
    with tempfile.TemporaryDirectory(prefix="seed_rl_benchmark_") as directory:
        address = f"unix:{directory}/socket"
        gateways = gateway_addresses(address, load.num_gateways)
        outputs = [Path(directory) / f"client_{task}.npy" for task in range(load.clients)]
        clients = [
            _client(load, gateways[task % len(gateways)] if gateways else address, task, output)
            for task, output in enumerate(outputs)
        ]
        server = start_server(address)
        try:
            paths = [Path(gateway.removeprefix("unix:")) for gateway in gateways]
            wait_until(lambda: all(path.exists() for path in paths), (), _START_TIMEOUT_SECS, "gateway")
            before = _Use(server)
            with running(clients):
                streams = load.clients * load.streams
                wait_until(
                    lambda: server.streams == streams, clients, _START_TIMEOUT_SECS, "stream of every client"
                )
                # The first inference call may take longer than the whole warm-up.
                wait_until(server.has_answered, clients, _START_TIMEOUT_SECS, "first answer")
                time.sleep(warm_up_secs)
                figures, window = _observe(server, clients, seconds)
                figures |= _Use(server).since(before, streams)
                for client in clients:
                    client.terminate()
                finish(clients, 30)
        finally:
            server.stop()
        trips = np.concatenate([np.load(output) for output in outputs], axis=1)
    trip_figures = _round_trips(trips, window, load.case.envs)
    rate = trip_figures["messages_per_second"]
    costs = {f"{who}_us_per_message": 1e6 * figures[f"{who}_cores"] / rate for who in ("server", "gateway")}
    return {**figures, **trip_figures, **costs}


def _client(load: Load, address: str, task: int, output: Path) -> Child:
    return module_child(
        "benchmarks.serving_client",
        f"--kind={load.kind}",
        f"--server_address={address}",
        f"--task={task}",
        f"--size={load.case.size}",
        f"--envs_per_message={load.case.envs}",
        f"--streams={load.streams}",
        f"--transport={load.transport}",
        f"--output={output}",
        log=output.with_suffix(".log"),
        env=ACTOR_ENV,
    )


class _Use:
    """Resident memory and open descriptors of this process, the server's, and of its gateways."""

    def __init__(self, server: Server):
        self._of = {"server": _used([os.getpid()]), "gateway": _used(server.gateway_pids)}

    def since(self, before: "_Use", streams: int) -> dict[str, float]:
        """Memory and descriptors that each of so many streams has added, by process."""
        figures = {}
        for who, (num_bytes, descriptors) in self._of.items():
            bytes_before, descriptors_before = before._of[who]
            figures[f"{who}_kib_per_stream"] = (num_bytes - bytes_before) / 1024 / streams
            figures[f"{who}_descriptors_per_stream"] = (descriptors - descriptors_before) / streams
        return figures


def _used(pids: Sequence[int]) -> tuple[int, int]:
    processes = [psutil.Process(pid) for pid in pids]
    with contextlib.ExitStack() as stack:
        for process in processes:
            stack.enter_context(process.oneshot())
        return sum(p.memory_info().rss for p in processes), sum(p.num_fds() for p in processes)


def _observe(
    server: Server, clients: Sequence[Child], seconds: float
) -> tuple[dict[str, float], tuple[float, float]]:
    """Lets it run; returns the figures and the time window, in seconds of the monotonic clock."""
    server.inference_figures()
    own = psutil.Process()
    of_clients = [psutil.Process(client.pid) for client in clients]
    of_gateways = [psutil.Process(pid) for pid in server.gateway_pids]
    for process in (own, *of_clients, *of_gateways):
        process.cpu_percent()  # It measures from one call to the next.
    start = time.monotonic()
    time.sleep(seconds)
    window = (start, time.monotonic())
    figures = {
        "server_cores": own.cpu_percent() / 100,
        "client_cores": statistics.fmean(client.cpu_percent() / 100 for client in of_clients),
        "gateway_cores": sum(gateway.cpu_percent() / 100 for gateway in of_gateways),
    }
    return {**figures, **server.inference_figures()}, window


def _round_trips(trips: np.ndarray, window: tuple[float, float], envs: int) -> dict[str, Any]:
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
