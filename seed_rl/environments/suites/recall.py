"""Recall: a cue is shown once, and the action many steps later must match it. Unsolvable without memory.

Like the task "memory length" of the behaviour suite (Osband et al., 2020), optionally with more cues.
A network that sees its own last action can carry the cue by repeating an action: set
--use_last_action_and_reward=false to test the recurrent state alone.
"""

import dataclasses
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from seed_rl.environments.base import EnvironmentConfig, Suite, draw_board
from seed_rl.options import option


@dataclasses.dataclass(frozen=True)
class RecallConfig(EnvironmentConfig):
    """Settings of Recall."""

    delay: int = option(10, "Environment frames between the cue and the question.", at_least=0)
    num_cues: int = option(
        2, "Number of cues and of actions: a random answer is right with probability 1/num_cues.", at_least=2
    )

    def validate(self) -> None:
        """Refuses action repeats, which could skip the question."""
        if self.num_action_repeats != 1:
            raise ValueError(
                f"--num_action_repeats={self.num_action_repeats} would skip recall's cues and questions; "
                "set it to 1."
            )


class Recall(gymnasium.Env):
    """Observations float32 `[num_cues + 1]`: the cue as a one-hot vector, then 1 at the question.

    An episode is the cue, `delay` observations of zeros, and the question, whose answer ends it with reward 1
    if it is the cue's number and 0 if not. All other actions are ignored, and all other rewards are 0.
    """

    def __init__(self, delay: int, num_cues: int, seed: int):
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": 10}
        self.render_mode = "rgb_array"
        self._delay, self._num_cues = delay, num_cues
        self.observation_space = spaces.Box(0.0, 1.0, (num_cues + 1,), np.float32)
        self.action_space = spaces.Discrete(num_cues)
        super().reset(seed=seed)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        """Shows a new cue."""
        super().reset(seed=seed)
        self._cue = int(self.np_random.integers(self._num_cues))
        self._frame = 0
        self._shown: int | None = self._cue
        return self._observation(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Plays one environment frame."""
        asked = self._frame == self._delay + 1
        self._frame += 1
        self._shown = self._num_cues if self._frame >= self._delay + 1 else None
        return self._observation(), float(asked and action == self._cue), asked, False, {}

    def render(self) -> np.ndarray:
        """The observation as a row of lights; the last one is the question."""
        return draw_board(self._observation()[np.newaxis])

    def _observation(self) -> np.ndarray:
        observation = np.zeros(self._num_cues + 1, np.float32)
        if self._shown is not None:
            observation[self._shown] = 1.0
        return observation


SUITE = Suite(
    RecallConfig, lambda config, seed, render_mode=None: Recall(config.delay, config.num_cues, seed)
)
