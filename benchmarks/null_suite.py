"""Environments that cost nothing or only CPU time, and a record of how long their actions took to arrive.

Those with the observations of DeepMind Lab and Football stand in for engines that cannot be installed
everywhere: `--game=benchmarks.null_suite:NullDMLab-v0`. No TensorFlow.
"""

import dataclasses
import functools
import itertools
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import gymnasium
import numpy as np
from gymnasium import spaces

from seed_rl.environments.base import EnvironmentConfig, Suite
from seed_rl.options import option

NUM_ACTIONS = 6

_SPACES: dict[str, spaces.Box] = {
    "atari": spaces.Box(0, 255, (84, 84), np.uint8),
    "vector": spaces.Box(-1.0, 1.0, (4,), np.float32),
}
SIZES = tuple(_SPACES)


@dataclasses.dataclass(frozen=True)
class NullConfig(EnvironmentConfig):
    """Settings of the null environment."""

    size: str = option(
        "atari", "Size of an observation: atari (84x84 uint8) or vector (4 float32).", choices=SIZES
    )


class RoundTrips:
    """Round trips of messages: when each ended, in seconds of the monotonic clock, and how long it took."""

    def __init__(self) -> None:
        self._asked: dict[int, float] = {}
        self._trips: list[tuple[float, float]] = []

    def asked(self, stream: int) -> None:
        """Records that a stream sends a message."""
        self._asked[stream] = time.monotonic()

    def answered(self, stream: int) -> None:
        """Records that a stream got its response."""
        asked = self._asked.pop(stream, None)
        if asked is not None:
            now = time.monotonic()
            self._trips.append((now, now - asked))

    def save(self, path: Path) -> None:
        """Writes float64 `[2, N]`: ends and durations."""
        np.save(path, np.array(self._trips).reshape(-1, 2).T)


@functools.cache
def _observation(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """All environments of a process share one: an emulator's would also be in the CPU cache."""
    return np.ones(shape, dtype)


class NullEnvironment(gymnasium.Env):
    """Always the same observation, no reward, no end of an episode; each step calls a function."""

    def __init__(self, space: spaces.Box, on_step: Callable[[], None], num_actions: int = NUM_ACTIONS):
        self.observation_space, self.action_space = space, spaces.Discrete(num_actions)
        self._on_step, self._observation = on_step, _observation(space.shape, space.dtype)

    def reset(self, *, seed=None, options=None):
        """See `gymnasium.Env`."""
        del seed, options
        return self._observation, {}

    def step(self, action):
        """See `gymnasium.Env`."""
        del action
        self._on_step()
        return self._observation, 0.0, False, False, {}


def null_suite(trips: RoundTrips, envs_per_message: int) -> Suite:
    """A suite of null environments for an actor, which makes them in the order of its streams.

    The first environment of a group is stepped as soon as the group's actions have arrived, and the last one
    just before the group's next message is sent: together they time the whole round trip.
    """
    return Suite(NullConfig, functools.partial(_make, trips, envs_per_message, itertools.count()))


def _make(
    trips: RoundTrips, envs_per_message: int, numbers: Iterator[int], config: NullConfig, seed: int
) -> gymnasium.Env:
    del seed
    stream, index = divmod(next(numbers), envs_per_message)

    def record() -> None:
        if index == 0:
            trips.answered(stream)
        if index == envs_per_message - 1:
            trips.asked(stream)

    return NullEnvironment(_SPACES[config.size], record)


def _work(secs: float) -> None:
    """Keeps the CPU busy."""
    end = time.thread_time() + secs
    while time.thread_time() < end:
        pass


# The observations of SEED RL's sections 4.1 and 4.2, with 9 and 19 actions, and CPU seconds for an agent step
# as cores and speeds of SEED imply: 104 for 74,000/4 steps/s (Table 4), and 416 for 17,500 (Table 5).
for _name, _space, _num_actions, _secs in (
    ("NullDMLab-v0", spaces.Box(0, 255, (72, 96, 3), np.uint8), 9, 0.0056),
    ("NullFootball-v0", spaces.Box(0, 1, (72, 96, 4), np.bool_), 19, 0.024),  # type: ignore[arg-type]
    ("NullFootballMedium-v0", spaces.Box(0, 1, (90, 120, 4), np.bool_), 19, 0.024),  # type: ignore[arg-type]
    ("NullFootballLarge-v0", spaces.Box(0, 1, (108, 144, 4), np.bool_), 19, 0.024),  # type: ignore[arg-type]
):
    gymnasium.register(
        _name,
        f"{__name__}:NullEnvironment",
        max_episode_steps=1000,
        kwargs={
            "space": _space,
            "on_step": functools.partial(_work, _secs),
            "num_actions": _num_actions,
        },
    )
