"""One case of `benchmarks.scale`, in a process of its own: prints its figures as one JSON object."""

import dataclasses
import functools
import os
from typing import Any

from benchmarks.harness import print_result
from benchmarks.null_suite import SIZES
from benchmarks.serving_parts import Case, Load, measure, serve
from seed_rl.flags.command_line import parse_options
from seed_rl.flags.errors import run_main
from seed_rl.launch.child import raise_descriptor_limit
from seed_rl.options import Options, option

# Ways of steps to the learner, with the clients' settings for each: (transport, gateways).
WAYS: dict[str, tuple[str, int]] = {
    "shared_memory": ("shared_memory", 0),
    "gateway": ("grpc", 1),
    "grpc": ("grpc", 0),
}


# Short, so that the memory of all unrolls is in use after the warm-up: its first touch is slow.
_UNROLL_LENGTH = 4


@dataclasses.dataclass(frozen=True)
class LoadConfig(Options):
    """Settings of the load, the same for all cases."""

    seconds: float = option(2.0, "Seconds of each measurement.", above=0)
    warm_up_secs: float = option(4.0, "Seconds before each measurement, with all streams busy.", at_least=0)
    clients: int = option(10, "Client processes.", at_least=1)
    streams: int = option(100, "Streams of each client process.", at_least=1)
    batch_size: int = option(256, "Most environments in an inference batch.", at_least=1)
    size: str = option("atari", "Size of an observation.", choices=SIZES)


@dataclasses.dataclass(frozen=True)
class CaseConfig(LoadConfig):
    """Settings of a case."""

    way: str = option("shared_memory", "How steps get to the learner.", choices=tuple(WAYS))
    envs: int = option(1, "Environments in a message.", at_least=1)
    model: str = option("tensorflow", "What answers; see benchmarks.serving.", choices=("tensorflow", "none"))


def main(argv: list[str]) -> int:
    """Measures the case."""
    config, _ = parse_options(argv, __doc__ or "", CaseConfig)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    raise_descriptor_limit()
    print_result(_measure(config))
    return 0


def _measure(config: CaseConfig) -> dict[str, Any]:
    transport, num_gateways = WAYS[config.way]
    case = Case(config.size, config.envs)
    load = Load("serving", case, config.clients, config.streams, transport, num_gateways)
    batch_size = min(max(config.batch_size, config.envs), load.num_envs)
    start = functools.partial(
        serve, load=load, batch_size=batch_size, model=config.model, unroll_length=_UNROLL_LENGTH
    )
    return measure(load, start, config.warm_up_secs, config.seconds)


if __name__ == "__main__":
    run_main(main)
