"""A client process of benchmarks.serving: a real actor with null environments, or an echo client.

Each client has one message in flight on each of its streams. On SIGTERM it saves its round trips and
exits. No TensorFlow.
"""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import grpc

from benchmarks.null_suite import RoundTrips, null_suite
from benchmarks.serving_parts import CHANNEL_OPTIONS, METHOD, Case
from seed_rl.actor.actor_config import ActorConfig
from seed_rl.actor.loop import Actor
from seed_rl.flags.errors import run_main
from seed_rl.launch.actor_process import keep_freed_memory


class Client(NamedTuple):
    """Settings of a client process: kind `serving`, an actor, or `echo`; its number `task`, from 0.

    It has so many `streams` with `envs` environments of a `size` in a message. `transport` is an actor's, and
    round trips are written to `output`.
    """

    kind: str
    address: str
    task: int
    size: str
    envs: int
    streams: int
    transport: str
    output: str


def main(argv: list[str]) -> NoReturn:
    """Runs a client, whose settings are the one argument, as a JSON array, and ends the process."""
    config = Client(*json.loads(argv[1]))
    trips = RoundTrips()
    signal.signal(signal.SIGTERM, lambda *_: _end(config, trips))
    keep_freed_memory()
    if config.kind == "serving":
        _act(config, trips)
    else:
        asyncio.run(_echo(config, trips))
    _end(config, trips)


def _end(config: Client, trips: RoundTrips) -> NoReturn:
    """Saves the round trips and ends the process at once."""
    trips.save(Path(config.output))
    os._exit(0)  # Skips the interpreter's shutdown, which gRPC's threads may block.


def _act(config: Client, trips: RoundTrips) -> None:
    actor_config = ActorConfig(
        server_address=config.address,
        task=config.task,
        env_batch_size=config.streams * config.envs,
        num_env_groups=config.streams,
        connect_timeout_secs=30.0,
        transport=config.transport,
    )
    suite = null_suite(trips, config.envs)
    actor = Actor(actor_config, suites=lambda name: suite)
    try:
        actor.run()
    finally:
        actor.close()


async def _echo(config: Client, trips: RoundTrips) -> None:
    """One event loop for all streams."""
    request = bytes(Case(config.size, config.envs).message_bytes[0])
    async with grpc.aio.insecure_channel(
        config.address, CHANNEL_OPTIONS, grpc.Compression.NoCompression
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


if __name__ == "__main__":
    run_main(main, sys.argv)
