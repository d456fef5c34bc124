"""Environments with the observations of DeepMind Lab and Football, whose steps are only work for the CPU.

They stand in for engines that cannot be installed everywhere:
`--game=benchmarks.null_environments:NullDMLab-v0`.
"""

import time
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

_EPISODE_STEPS = 1000


class NullEnvironment(gymnasium.Env):
    """Always observes the same; a step keeps the CPU busy for `work_ms`."""

    def __init__(self, observation_space: spaces.Space, num_actions: int, work_ms: float = 2.0):
        self.observation_space, self.action_space = observation_space, spaces.Discrete(num_actions)
        observation_space.seed(1)
        self._observation, self._work_secs = observation_space.sample(), work_ms / 1e3

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict]:
        """Starts an episode."""
        super().reset(seed=seed)
        self._steps = 0
        return self._observation, {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict]:
        """Works."""
        end = time.thread_time() + self._work_secs
        while time.thread_time() < end:
            pass
        self._steps += 1
        return self._observation, float(action == 0), False, self._steps == _EPISODE_STEPS, {}


# The sizes of section 4.1's and 4.2's observations; 9 and 19 actions.
_SPACES: dict[str, tuple[spaces.Space, int]] = {
    "NullDMLab-v0": (spaces.Box(0, 255, (72, 96, 3), np.uint8), 9),
    "NullFootball-v0": (spaces.Box(0, 1, (72, 96, 4), np.bool_), 19),
}
for _name, (_space, _num_actions) in _SPACES.items():
    gymnasium.register(
        _name, NullEnvironment, kwargs={"observation_space": _space, "num_actions": _num_actions}
    )
