"""A client process of the serving benchmark: a real actor with null environments, or an echo client.

Each client has one message in flight on each of its streams. On SIGTERM it saves its round trips and
exits. No TensorFlow.
"""

import asyncio
import dataclasses
import os
import queue
import signal
import sys
from pathlib import Path
from typing import Any, NoReturn

import grpc

from benchmarks.echo import CHANNEL_OPTIONS, METHOD, message_sizes
from benchmarks.null_suite import SIZES, RoundTrips, null_suite
from seed_rl.actor.actor_config import ActorConfig
from seed_rl.actor.loop import Actor
from seed_rl.flags.command_line import parse_options
from seed_rl.flags.errors import run_main
from seed_rl.launch.actor_process import keep_freed_memory
from seed_rl.options import Options, option

KINDS = ("serving", "echo", "sync_echo")


@dataclasses.dataclass(frozen=True)
class ClientConfig(Options):
    """Settings of a client process."""

    kind: str = option("serving", "Kind of client.", choices=KINDS)
    server_address: str = option("", "Where the server listens.")
    task: int = option(0, "Number of this process, from 0.", at_least=0)
    size: str = option("atari", "Size of an observation.", choices=SIZES)
    envs_per_message: int = option(1, "Environments in a message.", at_least=1)
    streams: int = option(1, "Streams of this process.", at_least=1)
    transport: str = option("auto", "How an actor's steps travel.", choices=("grpc", "shared_memory", "auto"))
    output: str = option("", "File to which the round trips are written.")


def main(argv: list[str]) -> NoReturn:
    """Runs a client and ends the process."""
    config, _ = parse_options(argv, __doc__ or "", ClientConfig)
    trips = RoundTrips()
    signal.signal(signal.SIGTERM, lambda *_: _end(config, trips))
    keep_freed_memory()
    if config.kind == "serving":
        _act(config, trips)
    elif config.kind == "echo":
        asyncio.run(_echo(config, trips))
    else:
        _sync_echo(config, trips)
    _end(config, trips)


def _end(config: ClientConfig, trips: RoundTrips) -> NoReturn:
    """Saves the round trips and ends the process at once."""
    trips.save(Path(config.output))
    os._exit(0)  # Skips the interpreter's shutdown, which gRPC's threads may block.


def _act(config: ClientConfig, trips: RoundTrips) -> None:
    actor_config = ActorConfig(
        server_address=config.server_address,
        task=config.task,
        env_batch_size=config.streams * config.envs_per_message,
        num_env_groups=config.streams,
        connect_timeout_secs=30.0,
        transport=config.transport,
    )
    suite = null_suite(trips, config.envs_per_message)
    actor = Actor(actor_config, suites=lambda name: suite)
    try:
        actor.run()
    finally:
        actor.close()


async def _echo(config: ClientConfig, trips: RoundTrips) -> None:
    """One event loop for all streams."""
    request = bytes(message_sizes(config.size, config.envs_per_message)[0])
    async with grpc.aio.insecure_channel(
        config.server_address, CHANNEL_OPTIONS, grpc.Compression.NoCompression
    ) as channel:
        call = channel.stream_stream(METHOD)
        streams = [call(wait_for_ready=True) for _ in range(config.streams)]
        await asyncio.gather(*(_echo_stream(i, s, request, trips) for i, s in enumerate(streams)))


async def _echo_stream(number: int, stream: Any, request: bytes, trips: RoundTrips) -> None:
    while True:
        trips.asked(number)
        await stream.write(request)
        if await stream.read() is grpc.aio.EOF:
            return
        trips.answered(number)


def _sync_echo(config: ClientConfig, trips: RoundTrips) -> None:
    """One thread that goes through all streams in turn, plus the threads of gRPC's synchronous client."""
    request = bytes(message_sizes(config.size, config.envs_per_message)[0])
    channel = grpc.insecure_channel(config.server_address, CHANNEL_OPTIONS, grpc.Compression.NoCompression)
    call = channel.stream_stream(METHOD)
    streams = []
    for number in range(config.streams):
        requests: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        streams.append((number, requests, call(iter(requests.get, None), wait_for_ready=True)))
        requests.put(request)
        trips.asked(number)
    while all(_echo_once(*stream, request, trips) for stream in streams):
        pass
    for _, requests, responses in streams:
        responses.cancel()
        requests.put(None)
    channel.close()


def _echo_once(
    number: int,
    requests: "queue.SimpleQueue[bytes | None]",
    responses: Any,
    request: bytes,
    trips: RoundTrips,
) -> bool:
    """Waits for a stream's response and sends its next message; False when the server has ended."""
    if next(responses, None) is None:
        return False
    trips.answered(number)
    trips.asked(number)
    requests.put(request)
    return True


if __name__ == "__main__":
    run_main(main, sys.argv)
