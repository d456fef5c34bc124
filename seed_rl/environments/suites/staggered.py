"""Brings environments whose episodes all have the same length out of step with each other."""

from typing import Any

import gymnasium
import numpy as np

from seed_rl.environments.base import Info


class StaggeredStart(gymnasium.Wrapper):
    """Cuts the first episode after a random number of environment frames; that episode is not counted.

    Environments that start together and only ever end at their time limit would play the same part of an
    episode at the same time forever, and a training batch would contain nothing else.
    """

    def __init__(self, env: gymnasium.Env, time_limit: int, seed: int):
        """Draws where the first episode ends: 1 to `time_limit` - 1 environment frames."""
        super().__init__(env)
        self._time_limit = time_limit
        self._frames = 0
        self._first_limit: int | None = self._draw(seed)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict]:
        """Starts an episode; with a seed it counts as the first again."""
        if seed is not None:
            self._first_limit = self._draw(seed)
        elif self._frames:
            self._first_limit = None
        self._frames = 0
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict]:
        """Plays one environment frame."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._frames += 1
        if self._frames == self._first_limit and not (terminated or truncated):
            return observation, reward, terminated, True, {**info, Info.EPISODE_IS_VOID: True}
        return observation, reward, terminated, truncated, info

    def _draw(self, seed: int) -> int:
        return int(np.random.default_rng(seed).integers(1, self._time_limit))
