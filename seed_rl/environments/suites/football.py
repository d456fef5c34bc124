"""Google Research Football: scenarios by name, observed from above as four planes of bits, as in the paper.

The engine is built from its sources: tools/install_football.sh.
"""

import dataclasses
import logging
import pkgutil
from types import ModuleType
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from seed_rl.environments.base import EnvironmentConfig, Info, Suite, hint, repeat_actions
from seed_rl.environments.suites.old_gym import import_gym
from seed_rl.options import option

# The planes of an observation, and the color of each in pictures: red, green, blue.
_PLANES = {
    "left_team": (230, 60, 60),
    "right_team": (70, 110, 240),
    "ball": (255, 255, 255),
    "active": (250, 210, 0),
}
_GRASS = (30, 110, 50)
_PIXELS = 6  # of a picture per point of the map

_SIZES = ("96x72", "120x90", "144x108")


@dataclasses.dataclass(frozen=True)
class FootballConfig(EnvironmentConfig):
    """Settings of Football; the defaults are those of the paper's section 4.2."""

    game: str = option(
        "11_vs_11_hard_stochastic",
        "Name of a gfootball scenario, such as academy_empty_goal_close.",
    )
    map_size: str = option(
        "96x72",
        "Width and height of the observed map, the Super Mini Map (paper: these three).",
        choices=_SIZES,
    )
    rewards: str = option(
        "scoring",
        "What the agent is rewarded for: goals, or goals and ten checkpoints, 0.1 each, on the ball's way to "
        "the opponent's goal. The reported returns count only goals.",
        choices=("scoring", "scoring,checkpoints"),
    )


class Football(gymnasium.Env):
    """One player of the left team; the engine plays the others.

    Observations are bool `[height, width, 4]`: the left team's players, the right team's, the ball, and the
    controlled player. There are 19 actions, some of which stay active until they are released. An episode
    terminates at the end of the match and, in the academy's scenarios, at goals and lost balls.
    `info[Info.RAW_REWARD]` counts goals.
    """

    def __init__(self, config: FootballConfig, seed: int):
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": 10}
        self.render_mode = "rgb_array"
        width, height = (int(size) for size in config.map_size.split("x"))
        engine = _engine()
        _check_scenario(config.game)
        self._env = engine.create_environment(
            config.game,
            representation="extracted",
            rewards=config.rewards,
            channel_dimensions=(width, height),
            other_config_options={"game_engine_random_seed": 0},  # every reset sets another one
        )
        self.action_space = spaces.Discrete(int(self._env.action_space.n))
        self.observation_space = spaces.Box(0, 1, (height, width, len(_PLANES)), np.bool_)
        self._observation = np.zeros(self.observation_space.shape, np.bool_)
        self._closed = False
        super().reset(seed=seed)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        """Starts a match, with its own seed from `np_random`."""
        super().reset(seed=seed)
        match_seed = int(self.np_random.integers(2**31))
        # The engine reads both from its configuration; without this, the first match would set them for all.
        config = self._env.unwrapped._config
        config["game_engine_random_seed"] = match_seed
        config["reverse_team_processing"] = bool(match_seed % 2)
        return self._observe(self._env.reset()), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Plays one environment frame, a tenth of a second."""
        planes, reward, done, info = self._env.step(action)
        ours: dict[Any, Any] = {Info.RAW_REWARD: info["score_reward"]}
        return self._observe(planes), float(reward), bool(done), False, ours

    def render(self) -> np.ndarray:
        """The map from above: uint8 `[height, width, 3]`. It is not the engine's own view of the match."""
        picture = np.full((*self._observation.shape[:2], 3), _GRASS, np.uint8)
        for plane, color in enumerate(_PLANES.values()):
            picture[self._observation[..., plane]] = color
        return picture.repeat(_PIXELS, 0).repeat(_PIXELS, 1)

    def close(self) -> None:
        """Closes the engine; a second call does nothing."""
        if not self._closed:
            self._closed = True
            self._env.close()

    def _observe(self, planes: np.ndarray) -> np.ndarray:
        self._observation = planes > 0
        return self._observation


def _engine() -> ModuleType:
    """The module that makes environments, with its log messages at the end of every episode silenced."""
    try:
        import_gym()
        import gfootball.env
    except ImportError as error:
        raise ImportError(
            f"Google Research Football is not installed ({error}): run tools/install_football.sh."
        ) from error
    logging.getLogger("absl").setLevel(logging.WARNING)
    return gfootball.env


def _check_scenario(game: str) -> None:
    from gfootball import scenarios

    names = [module.name for module in pkgutil.iter_modules(scenarios.__path__) if not module.ispkg]
    if game not in names:
        choice = hint(game, names, f"; choose one of: {', '.join(names)}")
        raise ValueError(f"--game={game} is not a gfootball scenario{choice}.")


SUITE = Suite(
    FootballConfig, lambda config, seed, render_mode=None: repeat_actions(Football(config, seed), config)
)
