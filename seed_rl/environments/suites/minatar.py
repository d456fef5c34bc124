"""MinAtar: five Atari games on a 10x10 board (Young and Tian, 2019), learned in minutes on a laptop."""

import dataclasses
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from seed_rl.environments.base import EnvironmentConfig, Suite, draw_board, hint, repeat_actions
from seed_rl.messages import how_to_install
from seed_rl.options import option

_GAMES = ("asterix", "breakout", "freeway", "seaquest", "space_invaders")


@dataclasses.dataclass(frozen=True)
class MinAtarConfig(EnvironmentConfig):
    """Settings of MinAtar; the defaults are those of its authors."""

    game: str = option("breakout", f"Name of the game: {', '.join(_GAMES)}.")
    full_action_space: bool = option(
        False, "Use all 6 actions instead of only those that have an effect in the game."
    )
    sticky_action_probability: float = option(
        0.1,
        "Probability, per environment frame, that the game repeats the previous action.",
        at_least=0,
        at_most=1,
    )
    difficulty_ramping: bool = option(True, "Whether games get harder as they are played.")
    max_episode_frames: int | None = option(
        5_000, "Time limit of an episode, in environment frames; a longer episode is truncated.", at_least=1
    )


class MinAtar(gymnasium.Env):
    """One game. Observations are bool `[10, 10, channels]`, one channel for each kind of object."""

    def __init__(self, config: MinAtarConfig, seed: int):
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": 15}
        self.render_mode = "rgb_array"
        self._game = _engine(config)
        self._max_frames = config.max_episode_frames
        self._frames = 0
        minimal, every = self._game.minimal_action_set(), range(self._game.num_actions())
        self._actions = list(every if config.full_action_space else minimal)
        self.action_space = spaces.Discrete(len(self._actions))
        self.observation_space = spaces.Box(0, 1, tuple(self._game.state_shape()), np.bool_)
        self.reset(seed=seed)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        """Starts a game."""
        super().reset(seed=seed)
        if seed is not None:
            self._game.seed(int(self.np_random.integers(2**31)))
            self._game.last_action = 0
        self._frames = 0
        self._game.reset()
        return self._observation(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Plays one environment frame."""
        reward, terminated = self._game.act(self._actions[action])
        self._frames += 1
        timed_out = self._max_frames is not None and self._frames >= self._max_frames
        return self._observation(), float(reward), bool(terminated), timed_out, {}

    def render(self) -> np.ndarray:
        """The board as a picture; each kind of object has its own shade."""
        state = self._observation()
        shades = np.linspace(0.35, 1.0, state.shape[-1])
        return draw_board((state * shades).max(-1))

    def _observation(self) -> np.ndarray:
        return np.asarray(self._game.state(), np.bool_)


def _engine(config: MinAtarConfig) -> Any:
    if config.game not in _GAMES:
        choice = hint(config.game, _GAMES, f"; choose one of: {', '.join(_GAMES)}")
        raise ValueError(f"--game={config.game} is not a game of MinAtar{choice}.")
    try:
        from minatar import Environment
    except ImportError as error:
        raise ImportError(
            f"MinAtar is not installed ({error.name} is missing); {how_to_install('minatar')}."
        ) from error
    return Environment(config.game, config.sticky_action_probability, config.difficulty_ramping)


SUITE = Suite(
    MinAtarConfig, lambda config, seed, render_mode=None: repeat_actions(MinAtar(config, seed), config)
)
