"""An environment as a user brings it: arguments, and figures of its own."""

from typing import ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces


class Hallway(gymnasium.Env):
    """Ends `size` steps to the right, with a reward of 1, or after three times as many agent steps."""

    metadata: ClassVar = {"render_modes": ["rgb_array"]}

    def __init__(self, size=3, render_mode=None):
        self.size, self.render_mode = size, render_mode
        self.observation_space = spaces.Box(0, size, (1,), np.float32)
        self.action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = self.steps = 0
        return self._observe(), {}

    def step(self, action):
        self.steps += 1
        self.place = max(self.place + (1 if action else -1), 0)
        is_there = self.place == self.size
        is_late = self.steps == 3 * self.size and not is_there
        # Only the figures at the end count.
        figures = {"size": self.size, "unused": float("nan")} if is_there or is_late else {"other": 1}
        return (
            self._observe(),
            float(is_there),
            is_there,
            is_late,
            {"is_success": is_there, "metrics": figures},
        )

    def render(self):
        return np.full((24, 24, 3), 255 * self.place // self.size, np.uint8)

    def _observe(self):
        return np.array([self.place], np.float32)


gymnasium.register("Hallway-v0", Hallway)
