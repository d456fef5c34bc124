"""Catch: a ball falls down a small board, and a paddle at the bottom must be under it when it lands.

Small enough to learn in seconds, and the worked example of a suite: a configuration, a `gymnasium.Env`, and
`SUITE`, with one line in `registry.py`. The game is from Mnih et al., "Recurrent Models of Visual
Attention" (2014), with the sizes of the behaviour suite (Osband et al., 2020).
"""

import dataclasses
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from seed_rl.environments.base import EnvironmentConfig, Suite, draw_board, repeat_actions
from seed_rl.options import option


@dataclasses.dataclass(frozen=True)
class CatchConfig(EnvironmentConfig):
    """Settings of Catch."""

    rows: int = option(10, "Rows of the board; an episode lasts rows - 1 environment frames.", at_least=2)
    columns: int = option(5, "Columns of the board.", at_least=1)


class Catch(gymnasium.Env):
    """Observations are the board, float32 `[rows, columns]`: 1 at the ball and the paddle, 0 elsewhere.

    Actions: 0 moves the paddle left, 1 does not move it, 2 moves it right. The ball starts in a random column
    of the first row and falls one row per environment frame. In the last row the reward is 1 if the paddle is
    there too and -1 if not, and the episode terminates; all other rewards are 0.
    """

    def __init__(self, rows: int, columns: int, seed: int):
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": 10}
        self.render_mode = "rgb_array"
        self._rows, self._columns = rows, columns
        self.observation_space = spaces.Box(0.0, 1.0, (rows, columns), np.float32)
        self.action_space = spaces.Discrete(3)
        super().reset(seed=seed)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        """Drops a new ball; the paddle goes to the middle."""
        super().reset(seed=seed)
        self._ball_row = 0
        self._ball_column = int(self.np_random.integers(self._columns))
        self._paddle_column = self._columns // 2
        return self._board(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Plays one environment frame."""
        self._paddle_column = min(max(self._paddle_column + int(action) - 1, 0), self._columns - 1)
        self._ball_row += 1
        terminated = self._ball_row == self._rows - 1
        caught = self._ball_column == self._paddle_column
        reward = (1.0 if caught else -1.0) if terminated else 0.0
        return self._board(), reward, terminated, False, {}

    def render(self) -> np.ndarray:
        """The board as a picture."""
        return draw_board(self._board())

    def _board(self) -> np.ndarray:
        board = np.zeros((self._rows, self._columns), np.float32)
        board[self._ball_row, self._ball_column] = 1.0
        board[-1, self._paddle_column] = 1.0
        return board


SUITE = Suite(
    CatchConfig,
    lambda config, seed, render_mode=None: repeat_actions(Catch(config.rows, config.columns, seed), config),
)
