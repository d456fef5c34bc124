"""Replay at the paper's size: how much memory it takes, and how fast it can be sampled.

Sequences of 120 transitions (burn-in 40, T = 80) with 84x84 frames, the recurrent state of an LSTM of 512
units (random numbers, which do not compress), and the frames of the stack before the first step.

* Memory: some sequences of each game go into replay, and the bytes that it counts (frames, states, actions,
  tree, tables, Python's overhead) are extrapolated to 100,000 sequences. Goals: 3 GiB on the median game, 12
  GiB on the hardest.
* Speed: one thread draws batches of 64, decompressed and time-major, and updates their priorities. Another
  inserts at the paper's replay ratio, enforced by back-pressure. Goals: 608 sequences/s on the median game,
  which is what the paper's 8 TPU cores consumed, and 400 on the hardest.

The frames are real gameplay by a uniformly random policy with the full action set (Table 9's processing),
which child processes record first.
"""

import dataclasses
import itertools
import multiprocessing
import os
import statistics
import threading
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from benchmarks.harness import print_result, print_table
from seed_rl.environments.suites.atari import SUITE, AtariConfig
from seed_rl.experience.base import ClosedError, Setup, UnrollConfig
from seed_rl.experience.experience_config import ReplayConfig
from seed_rl.experience.replay import Replay
from seed_rl.flags.command_line import parse_options
from seed_rl.options import Options, option
from seed_rl.runs.scores import published_games
from seed_rl.types import AgentOutput, EnvOutput, Unroll

SEQUENCES = 100_000
LENGTH, BURN_IN, LSTM_SIZE, BATCH = 80, 40, 512, 64
STORED = BURN_IN + LENGTH + 1
REPLAY_RATIO = 0.75
# By memory, with a random policy.
MEDIAN_GAME, HARDEST_GAME = "DemonAttack", "YarsRevenge"
SPEED_GOALS = {MEDIAN_GAME: 608.0, HARDEST_GAME: 400.0}

_GIB = 2**30
_ATARI_57 = tuple(published_games("atari"))


@dataclasses.dataclass(frozen=True)
class ReplayBenchmarkConfig(Options):
    """Settings of the replay benchmark."""

    games: str = option("all", "Games for which memory is measured, separated by commas; all: Atari-57.")
    steps: int = option(4000, "Agent steps that are recorded of each game.", at_least=1000)
    speed_games: str = option(
        f"Pong,{MEDIAN_GAME},{HARDEST_GAME}",
        "Games for which speed is measured, separated by commas: an easy one, the median, the hardest.",
    )
    seconds: float = option(10.0, "Seconds of each speed measurement.", above=0)
    rounds: int = option(2, "Rounds of speed measurements.", at_least=1)
    replay_threads: int | None = option(None, "As for a learner; in speed measurements.", at_least=0)

    def validate(self) -> None:
        """Checks the games."""
        for name in ("games", "speed_games"):
            if wrong := set(filter(None, getattr(self, name).split(","))) - {*_ATARI_57, "all"}:
                raise ValueError(f"--{name}: {', '.join(wrong)} is not in Atari-57; name games such as Pong.")


def main(argv: list[str]) -> int:
    """Records gameplay, measures the memory and speed of replay, and prints both."""
    config, _ = parse_options(argv, __doc__ or "", ReplayBenchmarkConfig)
    games = list(_ATARI_57) if config.games == "all" else config.games.split(",")
    speed_games = list(filter(None, config.speed_games.split(",")))
    needed = sorted({*games, *speed_games})
    with multiprocessing.get_context("spawn").Pool() as pool:
        played = pool.starmap(_record, [(game, config.steps) for game in needed], chunksize=1)
    recordings = dict(zip(needed, played, strict=True))
    memory = {game: _extrapolated_bytes(recordings[game]) / _GIB for game in games}
    rows = [[game, gib, gib * _GIB / SEQUENCES / LENGTH] for game, gib in memory.items()]
    title = f"Memory of {SEQUENCES:,} sequences, random policy"
    print_table(title, ["game", "GiB", "bytes per agent step"], sorted(rows, key=lambda row: row[1]))
    speed = {game: _speed(recordings[game], config) for game in speed_games}
    rows = [[game, rate, SPEED_GOALS.get(game, "none")] for game, rate in speed.items()]
    title = f"Sequences/s drawn in batches of {BATCH} while others are inserted, {os.cpu_count()} cores"
    print_table(title, ["game", "replay", "goal"], rows)
    print_result(
        {
            "benchmark": "replay",
            "goals": {"median_gib": 3.0, "hardest_gib": 12.0, "sequences_per_second": SPEED_GOALS},
            "median_gib": statistics.median(memory.values()),
            "hardest_gib": max(memory.values()),
            "sequences_per_second": speed,
            "gib": memory,
        }
    )
    return 0


class _Recording(NamedTuple):
    """Agent steps `[N, ...]` of one environment: frames uint8 `[84, 84]`, actions, rewards, `done`."""

    frames: np.ndarray
    action: np.ndarray
    reward: np.ndarray
    done: np.ndarray


def _record(game: str, steps: int) -> _Recording:
    """Plays at random."""
    environment = SUITE.make(AtariConfig(game=game), 0)
    assert isinstance(environment.action_space, spaces.Discrete)
    num_actions = environment.action_space.n
    found = _Recording(
        np.zeros((steps, 84, 84), np.uint8),
        np.random.default_rng(0).integers(0, num_actions, steps, np.int32),
        np.zeros(steps, np.float32),
        np.zeros(steps, bool),
    )
    ended, reward = True, 0.0
    for step in range(steps):
        found.reward[step], found.done[step] = reward, ended
        if ended:
            observation, _ = environment.reset(seed=step)
        found.frames[step] = observation
        observation, gain, terminated, truncated, _ = environment.step(found.action[step])
        reward = float(gain)
        ended = terminated or truncated
    environment.close()
    return found


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


def _unrolls(recording: _Recording, env_id: int) -> Iterator[Unroll]:
    """One environment's endless unrolls: the recording over and over, from a start that depends on its id."""
    random = np.random.default_rng(env_id)
    start = 4 + int(random.integers(LENGTH))
    while True:
        for first in range(start, len(recording.frames) - STORED, LENGTH):
            yield _unroll(recording, first, env_id, first - start, random)


def _unroll(recording: _Recording, first: int, env_id: int, first_step: int, random: Any) -> Unroll:
    steps = slice(first, first + STORED)
    nothing = np.zeros(STORED, bool)
    env = EnvOutput(recording.reward[steps], recording.done[steps], nothing, recording.frames[steps])
    c, h = np.tanh(random.standard_normal((2, LSTM_SIZE), np.float32))
    state = {
        "core": {"c": c, "h": h},
        "frames": {"observation": np.stack(list(recording.frames[first - 4 : first]), -1)},
    }
    prev_action = recording.action[first - 1 : first - 1 + STORED]
    agent, versions = AgentOutput(recording.action[steps], {}), np.zeros(STORED, np.int64)
    return Unroll(prev_action, env, agent, state, versions, env_id, first_step)


def _extrapolated_bytes(recording: _Recording) -> float:
    """Bytes of the paper's number of sequences, extrapolated from the sequences of the recording."""
    count = (len(recording.frames) - 4 - LENGTH - STORED) // LENGTH
    replay, unrolls = _make(count + 1, min_size=count + 1), _unrolls(recording, 0)
    replay.insert([next(unrolls)])  # Stores its own prefix, unlike nearly all others.
    before = replay.nbytes
    replay.insert([next(unrolls) for _ in range(count)])
    return _make(SEQUENCES).nbytes + SEQUENCES * (replay.nbytes - before) / count


def _speed(recording: _Recording, config: ReplayBenchmarkConfig) -> float:
    """Sequences/s, the median over rounds."""
    replays = (_make(512, threads=config.replay_threads) for _ in range(config.rounds))
    return statistics.median(_sequences_per_second(one, recording, config.seconds) for one in replays)


def _sequences_per_second(replay: Replay, recording: _Recording, seconds: float) -> float:
    inserting = threading.Thread(target=_insert, args=(replay, recording), daemon=True)
    inserting.start()
    random, drawn = np.random.default_rng(0), 0
    replay.sample()
    start = time.monotonic()
    while (elapsed := time.monotonic() - start) < seconds:
        batch = replay.sample()
        replay.update_priorities(batch.handle, random.random(BATCH))
        drawn += BATCH
    replay.close()
    inserting.join()
    return drawn / elapsed


def _insert(replay: Replay, recording: _Recording) -> None:
    streams = [_unrolls(recording, env_id) for env_id in range(8)]
    # Created beforehand, because creating them must not be measured.
    unrolls = [[next(stream) for stream in streams] for _ in range(50)]
    try:
        for turn in itertools.cycle(unrolls):
            replay.insert(turn)
    except ClosedError:
        return
