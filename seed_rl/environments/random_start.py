"""Random actions before the first observation, so that copies of an environment are not in step."""

import copy
from typing import Any

import gymnasium
import numpy as np


class RandomStart(gymnasium.Wrapper):
    """Begins the first episode with random actions; the episode that follows from them is not counted.

    Copies that start together would otherwise show a training batch the same part of their episodes at first
    (Stooke & Abbeel, 2018, section 5.3, "Start State Decorrelation").
    """

    def __init__(self, env: gymnasium.Env, most: int, seed: int):
        """Draws the number of actions, in agent steps: 0 to `most`. The actions follow from `seed` as well."""
        super().__init__(env)
        self._number = int(np.random.default_rng(seed).integers(most + 1))
        self._actions = copy.deepcopy(env.action_space)
        self._actions.seed(seed)
        self._is_new = self._is_first = True  # Before the first reset; before the first episode's end.

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict]:
        """Starts an episode; the first time, plays on from there."""
        observation, info = self.env.reset(seed=seed, options=options)
        number, self._is_new = self._number if self._is_new else 0, False
        for _ in range(number):
            observation, _, terminated, truncated, info = self.env.step(self._actions.sample())
            if terminated or truncated:
                observation, info = self.env.reset()
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict]:
        """Plays one agent step."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        if self._is_first and (terminated or truncated):
            self._is_first = bool(info.get("episode_continues", False))
            info = {**info, "episode_is_void": True}
        return observation, reward, terminated, truncated, info
