"""Replay at the paper's size: how much memory it takes, and how fast it can be sampled.

Sequences of 120 transitions (burn-in 40, T = 80) with 84x84 frames, the recurrent state of an LSTM of 512
units (random numbers, which do not compress), and the frames of the stack before the first step.

* Memory: some sequences of each game go into replay, and the bytes that it counts (frames, states, actions,
  tree, tables, Python's overhead) are extrapolated to 100,000 sequences. With one game, replay is filled for
  real and a tenth beyond, and the count is compared with the resident memory that the operating system
  reports. Goals: 3 GiB on the median game, 12 GiB on the hardest.
* Speed: one thread draws batches of 64, decompressed and time-major, and updates their priorities. Another
  inserts at the paper's replay ratio, enforced by back-pressure. The reference is a ring of uncompressed
  NumPy arrays with the same tree. Goals: 608 sequences/s on the median game, which is what the paper's 8
  TPU cores consumed, and 400 on the hardest.

The frames are real gameplay by a uniformly random policy with the full action set (Table 9's processing),
recorded first. To fill replay for real, the recording is repeated.
"""

import dataclasses
import itertools
import math
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from benchmarks.gameplay import ATARI_57, Recording, load, record
from benchmarks.harness import print_result, print_table
from benchmarks.numpy_ring import NumpyRing
from seed_rl.experience.base import ClosedError, Experience, Setup, UnrollConfig
from seed_rl.experience.experience_config import ReplayConfig
from seed_rl.experience.replay import Replay
from seed_rl.flags.command_line import parse_options
from seed_rl.flags.errors import run_main
from seed_rl.options import Options, option
from seed_rl.types import AgentOutput, EnvOutput, Unroll

SEQUENCES = 100_000
LENGTH, BURN_IN, LSTM_SIZE, BATCH = 80, 40, 512, 64
STORED = BURN_IN + LENGTH + 1
REPLAY_RATIO = 0.75
# By memory, with a random policy.
MEDIAN_GAME, HARDEST_GAME = "DemonAttack", "YarsRevenge"
SPEED_GOALS = {MEDIAN_GAME: 608.0, HARDEST_GAME: 400.0}
GOALS = {"median_gib": 3.0, "hardest_gib": 12.0, "sequences_per_second": SPEED_GOALS}

_GIB = 2**30


@dataclasses.dataclass(frozen=True)
class ReplayBenchmarkConfig(Options):
    """Settings of the replay benchmark."""

    games: str = option("all", "Games for which memory is measured, separated by commas; all: Atari-57.")
    steps: int = option(4000, "Agent steps that are recorded of each game.", at_least=1000)
    processes: int = option(2, "Processes that record.", at_least=1)
    fill_game: str = option("Pong", "Game with which replay is filled for real; empty: none.")
    fill_sequences: int = option(SEQUENCES, "Number of sequences with which it is filled.", at_least=1)
    speed_games: str = option(
        f"Pong,{MEDIAN_GAME},{HARDEST_GAME}",
        "Games for which speed is measured, separated by commas: an easy one, the median, the hardest.",
    )
    seconds: float = option(10.0, "Seconds of each speed measurement.", above=0)
    rounds: int = option(2, "Rounds, each with replay and the NumPy ring in turn.", at_least=1)
    replay_threads: int | None = option(None, "As for a learner; in speed measurements.", at_least=0)

    def validate(self) -> None:
        """Checks the games."""
        for name in ("games", "fill_game", "speed_games"):
            if wrong := set(filter(None, getattr(self, name).split(","))) - {*ATARI_57, "all"}:
                raise ValueError(f"--{name}: {', '.join(wrong)} is not in Atari-57; name games such as Pong.")


def main(argv: list[str]) -> int:
    """Records gameplay, measures the memory and speed of replay, and prints both."""
    config, _ = parse_options(argv, __doc__ or "", ReplayBenchmarkConfig)
    games = list(ATARI_57) if config.games == "all" else config.games.split(",")
    speed_games = list(filter(None, config.speed_games.split(",")))
    needed = sorted({*games, *speed_games, *filter(None, [config.fill_game])})
    with tempfile.TemporaryDirectory(prefix="seed_rl_benchmark_") as path:
        directory = Path(path)
        _say(f"recording {config.steps:,} agent steps of {len(needed)} games")
        record(directory, needed, config.steps, config.processes)
        memory = {game: _extrapolated_bytes(load(directory, game)) / _GIB for game in games}
        _print_memory(memory)
        speed = {game: _speed(load(directory, game), config) for game in speed_games}
        _print_speed(speed)
        filled = _fill(load(directory, config.fill_game), config) if config.fill_game else {}
    print_result(
        {
            "benchmark": "replay",
            "goals": GOALS,
            "median_gib": statistics.median(memory.values()),
            "hardest_gib": max(memory.values()),
            "sequences_per_second": {game: figures["replay"] for game, figures in speed.items()},
            "filled": filled,
            "gib": memory,
            "speed": speed,
        }
    )
    return 0


def _make(capacity: int, min_size: int = 1, threads: int | None = None) -> Replay:
    config = ReplayConfig(
        replay_buffer_size=capacity,
        replay_buffer_min_size=min_size,
        replay_ratio=REPLAY_RATIO,
        priority_exponent=0.9,
        importance_sampling_exponent=0.6,
        replay_threads=threads,
    )
    random = np.random.default_rng(0)
    unroll, priorities = UnrollConfig(LENGTH, BURN_IN), lambda unrolls: random.random(len(unrolls))
    replay = config.make(Setup(1, unroll, BATCH, initial_priorities=priorities))
    assert isinstance(replay, Replay)
    return replay


def _unrolls(recording: Recording, env_id: int) -> Iterator[Unroll]:
    """One environment's endless unrolls: the recording over and over, from a start that depends on its id."""
    random = np.random.default_rng(env_id)
    start = 4 + int(random.integers(LENGTH))
    while True:
        for first in range(start, len(recording.frames) - STORED, LENGTH):
            yield _unroll(recording, first, env_id, first - start, random)


def _unroll(recording: Recording, first: int, env_id: int, first_step: int, random: Any) -> Unroll:
    steps = slice(first, first + STORED)
    nothing = np.zeros(STORED, bool)
    env = EnvOutput(recording.reward[steps], recording.done[steps], nothing, recording.frames[steps])
    c, h = np.tanh(random.standard_normal((2, LSTM_SIZE), np.float32))
    state = {
        "core": {"c": c, "h": h},
        "frames": {"observation": np.stack(recording.frames[first - 4 : first], -1)},
    }
    prev_action = recording.action[first - 1 : first - 1 + STORED]
    agent, versions = AgentOutput(recording.action[steps], {}), np.zeros(STORED, np.int64)
    return Unroll(prev_action, env, agent, state, versions, env_id, first_step)


def _extrapolated_bytes(recording: Recording) -> float:
    """Bytes of the paper's number of sequences, extrapolated from the sequences of the recording."""
    count = (len(recording.frames) - 4 - LENGTH - STORED) // LENGTH
    replay, unrolls = _make(count + 1, min_size=count + 1), _unrolls(recording, 0)
    replay.insert([next(unrolls)])  # Stores its own prefix, unlike nearly all others.
    before = replay.nbytes
    replay.insert([next(unrolls) for _ in range(count)])
    return _make(SEQUENCES).nbytes + SEQUENCES * (replay.nbytes - before) / count


def _fill(recording: Recording, config: ReplayBenchmarkConfig) -> dict[str, float]:
    """Fills replay for real and a tenth beyond, so that the oldest are evicted; figures by name."""
    _say(f"filling replay with {config.fill_sequences:,} sequences of {config.fill_game}")
    process, num_envs = psutil.Process(), 128
    rss, start = process.memory_info().rss, time.monotonic()
    # Nothing is drawn before the minimum size, so nothing waits.
    replay = _make(config.fill_sequences, min_size=config.fill_sequences)
    streams = [_unrolls(recording, env_id) for env_id in range(num_envs)]
    per_batch = math.ceil(BATCH / REPLAY_RATIO)  # Sequences to insert before the next batch may be drawn.
    for index in range(config.fill_sequences):
        replay.insert([next(streams[index % num_envs])])
    for index in range(config.fill_sequences // 10):
        replay.insert([next(streams[index % num_envs])])
        if index % per_batch == per_batch - 1:
            replay.sample()
    grown = process.memory_info().rss - rss
    figures = {
        "sequences": float(len(replay)),
        "counted_gib": replay.nbytes / _GIB,
        "resident_gib": grown / _GIB,
        "uncompressed_gib": len(replay) * STORED * 84 * 84 / _GIB,
        "seconds": time.monotonic() - start,
    }
    print_table(f"Filled for real with {config.fill_game}", list(figures), [list(figures.values())])
    return figures


def _speed(recording: Recording, config: ReplayBenchmarkConfig) -> dict[str, float]:
    """Sequences/s of replay and of the NumPy ring, medians over rounds, and their ratio."""
    rounds: dict[str, list[float]] = {"replay": [], "ring": []}
    for _ in range(config.rounds):
        capacity = 512
        replay = _make(capacity, threads=config.replay_threads)
        rounds["replay"].append(_sequences_per_second(replay, recording, config.seconds))
        ring = NumpyRing(capacity, BATCH, REPLAY_RATIO)
        rounds["ring"].append(_sequences_per_second(ring, recording, config.seconds))
    figures = {name: statistics.median(values) for name, values in rounds.items()}
    return {**figures, "ratio": figures["replay"] / figures["ring"]}


def _sequences_per_second(experience: Experience, recording: Recording, seconds: float) -> float:
    inserting = threading.Thread(target=_insert, args=(experience, recording), daemon=True)
    inserting.start()
    random, drawn = np.random.default_rng(0), 0
    experience.sample()
    start = time.monotonic()
    while (elapsed := time.monotonic() - start) < seconds:
        batch = experience.sample()
        experience.update_priorities(batch.handle, random.random(BATCH))
        drawn += BATCH
    experience.close()
    inserting.join()
    return drawn / elapsed


def _insert(experience: Experience, recording: Recording) -> None:
    streams = [_unrolls(recording, env_id) for env_id in range(8)]
    # Created beforehand, because creating them must not be measured.
    unrolls = [[next(stream) for stream in streams] for _ in range(50)]
    try:
        for turn in itertools.cycle(unrolls):
            experience.insert(turn)
    except ClosedError:
        return


def _print_memory(memory: dict[str, float]) -> None:
    rows = [[game, gib, gib * _GIB / SEQUENCES / LENGTH] for game, gib in memory.items()]
    rows.sort(key=lambda row: row[1])
    print_table(
        f"Memory of {SEQUENCES:,} sequences, random policy", ["game", "GiB", "bytes per agent step"], rows
    )


def _print_speed(speed: dict[str, dict[str, float]]) -> None:
    rows = [
        [game, figures["replay"], SPEED_GOALS.get(game, "none"), figures["ring"], figures["ratio"]]
        for game, figures in speed.items()
    ]
    title = (
        f"Sequences/s drawn in batches of {BATCH} while {1 / REPLAY_RATIO:.2f} times as many are inserted, "
        f"{os.cpu_count()} cores"
    )
    print_table(title, ["game", "replay", "goal", "uncompressed ring", "ratio"], rows)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    run_main(main, sys.argv)
