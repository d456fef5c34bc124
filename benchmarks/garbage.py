"""A learner under garbage: what it logs and keeps, and how soon a new actor gets its first answer.

A learner of Catch with one actor gets garbage from several connections at a time: bytes, HTTP/2 frames,
metadata and messages, half of the calls with its token. Meanwhile new actors come. The same seed makes the
same garbage.
"""

import contextlib
import dataclasses
import itertools
import queue
import secrets
import socket
import statistics
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import psutil

from benchmarks.garbage_inputs import KINDS, Garbage, join_of, ready_and_step, send
from benchmarks.harness import module_child, print_result, print_table, read_metrics, running, wait_until
from seed_rl.flags.command_line import parse_options
from seed_rl.flags.errors import run_main
from seed_rl.launch.child import Child
from seed_rl.options import Options, option
from seed_rl.wire.generated import inference_pb2 as pb
from seed_rl.wire.protocol import METHOD, SERVICE

_SETTLE_SECS = 10.0
_START_SECS = 120.0
_RETRY_SECS = 0.2

LEARNER = (
    "--environment=catch",
    "--agent=vtrace",
    "--num_envs=16",
    "--lstm_size=0",
    "--unroll_length=10",
    "--batch_size=4",
    "--intra_op_threads=1",
    "--total_environment_frames=1000000000",
)
ENVS = 4  # Of an actor.


@dataclasses.dataclass(frozen=True)
class GarbageConfig(Options):
    """Settings of the garbage benchmark."""

    inputs: int = option(20_000, "Inputs in all.", at_least=1)
    seed: int = option(0, "Seed of the inputs.")
    connections: int = option(8, "Connections that send at a time.", at_least=1)
    actors: int = option(20, "New actors, spread over the campaign.", at_least=1)
    actor_secs: float = option(10.0, "A new actor without an answer after this time is locked out.", above=0)


def main(argv: list[str]) -> int:
    """Throws garbage at a learner; returns 1 if a new actor was locked out or the learner ended."""
    config, _ = parse_options(argv, __doc__ or "", GarbageConfig)
    with tempfile.TemporaryDirectory(prefix="seed_rl_benchmark_") as directory:
        figures = _run(config, Path(directory))
    print_table("A learner under garbage", ["figure", "value"], [[*item] for item in figures.items()])
    print_result({"benchmark": "garbage", "inputs": config.inputs, "seed": config.seed, "figures": figures})
    return int(figures["locked_out"] > 0 or not figures["learner_runs"])


def _run(config: GarbageConfig, path: Path) -> dict[str, Any]:
    token, address = secrets.token_hex(16), ("127.0.0.1", _free_port())
    (path / "token").write_text(token)
    (path / "token").chmod(0o600)
    both = [f"--server_address={address[0]}:{address[1]}", f"--token_file={path}/token"]
    logdir, log = path / "run", path / "learner.log"
    learner = module_child("seed_rl", "learner", *LEARNER, f"--logdir={logdir}", *both, log=log)
    actor = module_child("seed_rl", "actor", f"--env_batch_size={ENVS}", *both, log=path / "actor.log")
    with running([learner, actor]):
        wait_until(lambda: _frames(logdir) > 0, [learner, actor], _START_SECS, "first update")
        welcome = first_answer(address, token, _START_SECS).welcome
        garbage, before, start = Garbage(config.seed, welcome, token), _use(learner), time.monotonic()
        accepted, seconds = _campaign(config, garbage, address, token)
        campaign_secs = time.monotonic() - start
        time.sleep(_SETTLE_SECS)
        after, text = _use(learner), log.read_bytes()
        frames = _frames(logdir)
        with contextlib.suppress(TimeoutError, RuntimeError):
            wait_until(lambda: _frames(logdir) > frames, [learner, actor], _START_SECS, "more frames")
        answered = [s for s in seconds if s is not None]
        return {
            "accepted_inputs": accepted,
            "campaign_secs": campaign_secs,
            "lines_of_log": text.count(b"\n"),
            "tracebacks": text.count(b"Traceback"),
            "escape_bytes": text.count(b"\x1b"),
            "memory_mib_before": before.get("memory_mib"),
            "memory_mib_after": after.get("memory_mib"),
            "descriptors_before": before.get("descriptors"),
            "descriptors_after": after.get("descriptors"),
            "new_actors": len(seconds),
            "locked_out": len(seconds) - len(answered),
            "first_answer_median_secs": statistics.median(answered) if answered else None,
            "first_answer_longest_secs": max(answered, default=None),
            "learner_runs": learner.running and _frames(logdir) > frames,
        }


def _campaign(
    config: GarbageConfig, garbage: Garbage, address: tuple[str, int], token: str
) -> tuple[int, list[float | None]]:
    """Sends everything; returns how many inputs were accepted, and each new actor's seconds or None."""
    inputs = (garbage.input(kind) for kind in itertools.islice(itertools.cycle(KINDS), config.inputs))
    accepted, seconds = 0, []
    part = -(-config.inputs // config.actors)
    with ThreadPoolExecutor(config.connections) as pool:
        while chosen := list(itertools.islice(inputs, part)):
            sending = [pool.submit(send, address, sent) for sent in chosen]
            seconds.append(first_answer(address, token, config.actor_secs).seconds)
            accepted += sum(future.result() for future in sending)
            print(f"{len(seconds) * part} of {config.inputs}", end="\r", file=sys.stderr, flush=True)
    return accepted, seconds


@dataclasses.dataclass
class Answer:
    """Answer that a new actor got.

    Attributes:
      seconds: until the actions for its first step; None: it got none in time.
      welcome: the learner's, if it has answered.
    """

    seconds: float | None = None
    welcome: pb.Welcome = dataclasses.field(default_factory=pb.Welcome)


def first_answer(address: tuple[str, int], token: str | None, timeout_secs: float) -> Answer:
    """Plays one step as a new actor, which tries again until it has an answer or the time is over."""
    start, answer = time.monotonic(), Answer()
    metadata = [("authorization", f"Bearer {token}")] if token else []
    options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_reconnect_backoff_ms", 1_000)]
    join, asked = join_of(ENVS, secrets.randbits(64)), f"{address[0]}:{address[1]}"
    while (left := start + timeout_secs - time.monotonic()) > 0:
        said: queue.SimpleQueue[pb.FromActor | None] = queue.SimpleQueue()
        with (
            grpc.insecure_channel(asked, options) as channel,
            contextlib.suppress(grpc.RpcError, StopIteration),
        ):
            connect = channel.stream_stream(
                f"/{SERVICE}/{METHOD}", pb.FromActor.SerializeToString, pb.FromLearner.FromString
            )
            call = connect(iter(said.get, None), timeout=left, metadata=metadata, wait_for_ready=True)
            said.put(join)
            answer.welcome = next(call).welcome
            for message in ready_and_step(answer.welcome, ENVS):
                said.put(message)
            next(call)
            answer.seconds = time.monotonic() - start
        said.put(None)
        if answer.seconds is not None:
            break
        time.sleep(_RETRY_SECS)
    return answer


def _use(learner: Child) -> dict[str, float]:
    """The learner's memory and descriptors; empty if it has ended."""
    try:
        process = psutil.Process(learner.pid)
        return {"memory_mib": process.memory_info().rss / 2**20, "descriptors": process.num_fds()}
    except psutil.Error:
        return {}


def _frames(logdir: Path) -> int:
    return int(next(iter(read_metrics(logdir)[-1:]), {"env_frames": 0})["env_frames"])


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


if __name__ == "__main__":
    run_main(main, sys.argv)
