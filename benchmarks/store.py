"""From inference to training batches: the store that copies unrolls into the batches, and an obvious one.

Steps `[N, ...]` of some environments go in, and batches of V-trace's unrolls (T = 20) come out. The reference
is the obvious way: a list of unrolls, as replay gets them, and `np.stack`. All on one thread.
"""

import dataclasses
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import optree

from benchmarks.harness import check_names, medians, print_result, print_table
from seed_rl.experience.base import Setup, StepStore, UnrollConfig
from seed_rl.experience.fifo import Fifo
from seed_rl.experience.unroll_store import UnrollStore
from seed_rl.flags.command_line import parse_options
from seed_rl.flags.errors import run_main
from seed_rl.options import Options, option
from seed_rl.types import AgentOutput, EnvOutput, Unroll


class _Case(NamedTuple):
    shape: tuple[int, ...]
    dtype: str
    num_envs: int
    inference_batch: int
    batch_size: int


CASES = {
    "atari": _Case((84, 84, 1), "uint8", 64, 32, 32),
    "atari_large": _Case((84, 84, 1), "uint8", 256, 64, 32),
    "vector": _Case((4,), "float32", 16, 4, 16),
    "vector_large": _Case((22,), "float32", 128, 64, 32),
}
_UNROLL = UnrollConfig(20)


@dataclasses.dataclass(frozen=True)
class StoreConfig(Options):
    """Settings of the benchmark of the store."""

    seconds: float = option(1.0, "Seconds of each measurement, after as long a warm-up.", above=0)
    rounds: int = option(3, "Rounds, each with both ways in turn.", at_least=1)
    cases: str = option(",".join(CASES), f"Cases, separated by commas: {', '.join(CASES)}.")

    def validate(self) -> None:
        """Checks the cases."""
        check_names("cases", self.cases, tuple(CASES))


def main(argv: list[str]) -> int:
    """Measures both ways in each case."""
    config, _ = parse_options(argv, __doc__ or "", StoreConfig)
    results = {}
    for name in config.cases.split(","):
        case = CASES[name]
        found = medians(
            [
                {kind: _microseconds(case, make(case), config) for kind, make in _KINDS.items()}
                for _ in range(config.rounds)
            ]
        )
        results[name] = found | {"ratio": found["batches"] / found["unrolls"]}
    rows = [[name, *found.values()] for name, found in results.items()]
    print_table("Microseconds for each agent step", ["case", *_KINDS, "batches / unrolls"], rows)
    print_result({"benchmark": "store", "microseconds_per_agent_step": results})
    return 0


class _Way(NamedTuple):
    """A store, and what takes its batches, after each step."""

    store: StepStore
    drain: Callable[[], None]


def _batches(case: _Case) -> _Way:
    # One thread cannot wait for itself.
    fifo = Fifo(Setup(case.num_envs, _UNROLL, case.batch_size), case.batch_size + case.num_envs)

    def drain() -> None:
        while fifo.batch_ready():
            fifo.sample()

    return _Way(fifo.store, drain)


def _unrolls(case: _Case) -> _Way:
    waiting: list[Unroll] = []

    def drain() -> None:
        while len(waiting) >= case.batch_size:
            steps = [(u.prev_action, u.env, u.agent) for u in waiting[: case.batch_size]]
            optree.tree_map(lambda *x: np.stack(x, axis=1), *steps)
            del waiting[: case.batch_size]

    return _Way(UnrollStore(case.num_envs, _UNROLL, waiting.extend), drain)


_KINDS = {"unrolls": _unrolls, "batches": _batches}


def _microseconds(case: _Case, way: _Way, config: StoreConfig) -> float:
    """For each agent step."""
    rng, size = np.random.default_rng(0), case.inference_batch
    zeros, flags, action = np.zeros(size, np.float32), np.zeros(size, bool), np.zeros(size, np.int32)
    frames = [rng.integers(0, 255, (size, *case.shape)).astype(case.dtype) for _ in range(4)]
    agent = AgentOutput(action, {"baseline": zeros, "logits": np.zeros((size, 6), np.float32)})
    turns = np.arange(case.num_envs).reshape(-1, size)
    spent, steps, begin, index = 0.0, 0, time.monotonic(), 0
    while (elapsed := time.monotonic() - begin) < 2 * config.seconds:
        env_ids = turns[index % len(turns)]
        env = EnvOutput(zeros, flags, flags, frames[index % len(frames)])
        start = time.perf_counter()
        _step(way, env_ids, action, env, agent)
        if elapsed > config.seconds:
            spent += time.perf_counter() - start
            steps += size
        index += 1
    return 1e6 * spent / steps


def _step(way: _Way, env_ids: np.ndarray, action: Any, env: EnvOutput, agent: AgentOutput) -> None:
    starting = way.store.starting(env_ids)
    way.store.hand_over(way.store.append(env_ids, (action, env, agent), starting, (), 0))
    way.drain()


if __name__ == "__main__":
    run_main(main, sys.argv)
