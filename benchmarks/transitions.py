"""Replay of transitions: agent steps stored, batches drawn, and both while the replay ratio is kept.

Frames `[84, 84]` of 32 environments, 3-step transitions with 3 frames of history (a stack of 4), in batches
of 32. Both are measured alone on one thread, and then together: one thread stores steps and hands them over,
as inference does, and another draws batches and updates their priorities, as fast as the ratio allows.
"""

import dataclasses
import sys
import threading
import time
from collections.abc import Callable

import numpy as np

from benchmarks.harness import medians, print_result, print_table
from seed_rl.experience.base import ClosedError, Setup, StepStore, UnrollConfig
from seed_rl.experience.experience_config import TransitionReplayConfig
from seed_rl.experience.transitions import TransitionReplay
from seed_rl.flags.command_line import parse_options
from seed_rl.flags.errors import run_main
from seed_rl.options import Options, option
from seed_rl.types import AgentOutput, EnvOutput

NUM_ENVS, BATCH = 32, 32
UNROLL = UnrollConfig(3, burn_in=3, period=1, stagger=False, keeps_state=False)
EXPONENTS = {"uniform": 0.0, "prioritized": 0.5}


@dataclasses.dataclass(frozen=True)
class TransitionsConfig(Options):
    """Settings of the benchmark of transitions."""

    transitions: int = option(100_000, "Transitions in replay, which is filled first.", at_least=1000)
    seconds: float = option(3.0, "Seconds of each measurement.", above=0)
    rounds: int = option(3, "Rounds, each with all measurements in turn.", at_least=1)
    replay_ratio: float = option(8.0, "Transitions drawn for each one added.", above=0)


def main(argv: list[str]) -> int:
    """Measures uniform and prioritized replay."""
    config, _ = parse_options(argv, __doc__ or "", TransitionsConfig)
    found = {
        name: medians([_measure(config, exponent) for _ in range(config.rounds)])
        for name, exponent in EXPONENTS.items()
    }
    rows = [[name, *figures.values()] for name, figures in found.items()]
    print_table("Replay of transitions", ["draws", *next(iter(found.values()))], rows)
    print_result({"benchmark": "transitions", "settings": config.to_dict(), "figures": found})
    return 0


class _Inference:
    """Stores the same few steps over and over."""

    def __init__(self, store: StepStore):
        random = np.random.default_rng(0)
        zeros, flags = np.zeros(NUM_ENVS, np.float32), np.zeros(NUM_ENVS, bool)
        frames = random.integers(0, 255, (4, NUM_ENVS, 84, 84), np.uint8)
        self._ids, self._action = np.arange(NUM_ENVS, dtype=np.int32), np.zeros(NUM_ENVS, np.int32)
        self._store, self._turn = store, 0
        self._envs = [EnvOutput(zeros, flags, flags, frame) for frame in frames]
        self._agent = AgentOutput(self._action, {"q_values": np.zeros((NUM_ENVS, 18), np.float32)})

    def act(self) -> list[int]:
        """Stores a step of all environments; returns what is to be handed over."""
        self._turn += 1
        env = self._envs[self._turn % len(self._envs)]
        starting = self._store.starting(self._ids)
        step = self._action, env, self._agent
        return self._store.append(self._ids, step, starting, (), self._turn)

    def hand_over(self, completed: list[int]) -> None:
        """Waits until training has caught up."""
        self._store.hand_over(completed)

    def act_and_wait(self) -> None:
        """Does what a turn of inference does with experience."""
        self.hand_over(self.act())


def _measure(config: TransitionsConfig, priority_exponent: float) -> dict[str, float]:
    figures = {}
    for name, ratio in (("alone", 1e9), ("together", config.replay_ratio)):
        settings = TransitionReplayConfig(
            replay_buffer_size=config.transitions,
            replay_buffer_min_size=config.transitions,
            replay_ratio=ratio,
            priority_exponent=priority_exponent,
        )
        replay = settings.make(Setup(NUM_ENVS, UNROLL, BATCH))
        assert isinstance(replay, TransitionReplay)
        inference = _Inference(replay.store)
        while len(replay) < config.transitions:
            inference.act_and_wait()
        random = np.random.default_rng(0)

        def train(replay: TransitionReplay = replay, random: np.random.Generator = random) -> None:
            batch = replay.sample()
            replay.update_priorities(batch.handle, random.random(BATCH))

        if name == "alone":
            figures["agent steps/s stored"] = NUM_ENVS * _per_second(inference.act, config.seconds)
            inference.hand_over(inference.act()[:1])  # At this ratio, training need not wait from now on.
            figures["batches/s drawn"] = _per_second(train, config.seconds)
        else:
            thread = threading.Thread(target=_until_closed, args=(inference.act_and_wait,), daemon=True)
            thread.start()
            figures["batches/s at the ratio"] = _per_second(train, config.seconds)
            replay.close()
            thread.join()
    return figures


def _per_second(function: Callable[[], object], seconds: float) -> float:
    start, calls = time.perf_counter(), 0
    while (elapsed := time.perf_counter() - start) < seconds:
        function()
        calls += 1
    return calls / elapsed


def _until_closed(function: Callable[[], None]) -> None:
    try:
        while True:
            function()
    except ClosedError:
        return


if __name__ == "__main__":
    run_main(main, sys.argv)
