"""Environments that cost nothing, and a record of how long their actions took to arrive. No TensorFlow."""

import dataclasses
import functools
import itertools
import time
from collections.abc import Iterator
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

# All environments of a process share one observation: an emulator's would also be in the CPU cache.
_OBSERVATIONS = {size: np.ones(space.shape, space.dtype) for size, space in _SPACES.items()}


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


class NullEnvironment(gymnasium.Env):
    """Always the same observation, no reward, no episode end.

    The first environment of a group is stepped as soon as the group's actions have arrived, and the last one
    just before the group's next message is sent: together they time the whole round trip.
    """

    def __init__(self, size: str, trips: RoundTrips, stream: int, is_first: bool, is_last: bool):
        """Creates an environment.

        Args:
          size: one of SIZES.
          trips: where round trips are recorded.
          stream: number of its group.
          is_first: whether it is the first of its group.
          is_last: whether it is the last of its group.
        """
        self.observation_space, self._observation = _SPACES[size], _OBSERVATIONS[size]
        self.action_space = spaces.Discrete(NUM_ACTIONS)
        self._trips, self._stream, self._is_first, self._is_last = trips, stream, is_first, is_last

    def reset(self, *, seed=None, options=None):
        """See `gymnasium.Env`."""
        del seed, options
        return self._observation, {}

    def step(self, action):
        """See `gymnasium.Env`."""
        del action
        if self._is_first:
            self._trips.answered(self._stream)
        if self._is_last:
            self._trips.asked(self._stream)
        return self._observation, 0.0, False, False, {}


def null_suite(trips: RoundTrips, envs_per_message: int) -> Suite:
    """A suite of null environments for an actor, which makes them in the order of its streams."""
    return Suite(NullConfig, functools.partial(_make, trips, envs_per_message, itertools.count()))


def _make(
    trips: RoundTrips, envs_per_message: int, numbers: Iterator[int], config: NullConfig, seed: int
) -> gymnasium.Env:
    stream, index = divmod(next(numbers), envs_per_message)
    return NullEnvironment(config.size, trips, stream, index == 0, index == envs_per_message - 1)
