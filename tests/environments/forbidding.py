"""Catch with an action mask: a forbidden action ends the episode, and is counted."""

import gymnasium
import numpy as np
from gymnasium import spaces

from seed_rl.environments.suites.catch import Catch

ROWS, COLUMNS = 10, 5
NOTHING = 3  # An action that does nothing, and is allowed in every second row only.


class Forbidding(gymnasium.Wrapper):
    """The paddle must not run into a wall. The mask is in `info` or, with `in_observation`, in a Dict.

    At the end of an episode, `info["metrics"]["forbidden"]` says how many forbidden actions were taken.
    """

    def __init__(self, in_observation=False):
        super().__init__(Catch(ROWS, COLUMNS, 0))
        self.action_space = spaces.Discrete(4)
        self._in_observation = in_observation
        if in_observation:
            mask = spaces.MultiBinary(4)
            self.observation_space = spaces.Dict(board=self.env.observation_space, action_mask=mask)

    def reset(self, *, seed=None, options=None):
        board, _ = self.env.reset(seed=seed)
        return self._masked(board, {})

    def step(self, action):
        if not self.allowed[action]:
            observation, info = self._masked(np.zeros((ROWS, COLUMNS), np.float32), {})
            return observation, -1.0, True, False, {**info, "metrics": {"forbidden": 1}}
        board, reward, terminated, truncated, _ = self.env.step(1 if action == NOTHING else action)
        observation, info = self._masked(board, {"metrics": {"forbidden": 0}})
        return observation, reward, terminated, truncated, info

    def _masked(self, board, info):
        column, row = self.env._paddle_column, self.env._ball_row
        self.allowed = np.array([column > 0, True, column < COLUMNS - 1, row % 2 == 1])
        if self._in_observation:
            return {"board": board, "action_mask": self.allowed.astype(np.int8)}, info
        return board, {**info, "action_mask": self.allowed}


gymnasium.register("Forbidding-v0", Forbidding)
