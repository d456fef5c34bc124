"""Google Research Football: scenarios by name, observed from above as four planes of bits, as in the paper.

Two engines play it: EnvPool's, which pip installs (extra `[envpool]`), and the original one, gfootball, which
tools/install_football.sh builds from its sources.
"""

import dataclasses
import importlib.util
import logging
import pkgutil
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces

from seed_rl.environments.base import Info, Suite, hint, repeat_actions
from seed_rl.environments.games import Game
from seed_rl.environments.suites.envpool import Pool, PoolConfig, library
from seed_rl.environments.suites.old_gym import import_gym
from seed_rl.environments.vector import OneOf
from seed_rl.messages import how_to_install
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

# An id of EnvPool is a scenario between these.
_POOL, _VERSION = "gfootball/", "-v1"

_SIZES = ("96x72", "120x90", "144x108")


@dataclasses.dataclass(frozen=True)
class FootballConfig(PoolConfig):
    """Settings of Football; the defaults are those of the paper's section 4.2."""

    before: ClassVar[Mapping[str, Any]] = {"engine": "gfootball"}
    easier: ClassVar[Mapping[str, Any]] = {
        "game": "academy_empty_goal_close",
        "rewards": "scoring,checkpoints",
    }

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
    engine: str | None = option(
        None,
        "What plays: envpool, which has maps of 96x72 and rewards for goals; or gfootball, the original. "
        "Default: envpool where it is installed and has what is asked for.",
        choices=("envpool", "gfootball"),
    )
    players: int = option(
        1,
        "Players of the left team that agents control, each of whom is an environment; the engine plays the "
        "others. More than 1 need the original engine.",
        at_least=1,
    )

    @property
    def has_players(self) -> bool:
        """Whether agents control several players of a match."""
        return self.players > 1

    @property
    def is_vector(self) -> bool:
        """Whether EnvPool steps the environments of a group."""
        return self.engine == "envpool"

    def validate(self) -> None:
        """Chooses the engine, and checks that it has the map and the rewards."""
        can = self.map_size == "96x72" and self.rewards == "scoring"
        can = can and self.num_action_repeats == self.players == 1
        if self.engine is None:
            has_envpool = importlib.util.find_spec("envpool") is not None
            object.__setattr__(self, "engine", "envpool" if can and has_envpool else "gfootball")
        elif self.engine == "envpool" and not can:
            raise ValueError(
                "--engine=envpool has --map_size=96x72, --rewards=scoring, --num_action_repeats=1 and "
                "--players=1 only; use --engine=gfootball."
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
        from gfootball import scenarios

        names = [module.name for module in pkgutil.iter_modules(scenarios.__path__) if not module.ispkg]
        _check_scenario(config.game, names, "gfootball")
        self._env = engine.create_environment(
            config.game,
            representation="extracted",
            rewards=config.rewards,
            channel_dimensions=(width, height),
            number_of_left_players_agent_controls=config.players,
            other_config_options={"game_engine_random_seed": 0},  # every reset sets another one
        )
        actions = self._env.action_space
        num_actions = actions.nvec[0] if config.has_players else actions.n
        self.action_space = spaces.Discrete(int(num_actions))
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

    def step(self, action: Any) -> tuple[np.ndarray, Any, bool, bool, dict[Any, Any]]:
        """Plays one environment frame, a tenth of a second; N players have N actions and rewards."""
        planes, reward, done, info = self._env.step(action)
        reward = reward if np.ndim(reward) else float(reward)
        return self._observe(planes), reward, bool(done), False, {Info.RAW_REWARD: info["score_reward"]}

    def render(self) -> np.ndarray:
        """The map from above: uint8 `[height, width, 3]`. It is not the engine's own view of the match."""
        return _drawn(self._observation)

    def close(self) -> None:
        """Closes the engine; a second call does nothing."""
        if not self._closed:
            self._closed = True
            self._env.close()

    def _observe(self, planes: np.ndarray) -> np.ndarray:
        self._observation = planes > 0
        return self._observation


class FootballTeam:
    """Several players of the left team, as PettingZoo describes environments whose players act together.

    Each sees what `Football` shows, with itself as the controlled player. All get the team's rewards, or each
    those of its own checkpoints.
    """

    def __init__(self, config: FootballConfig, seed: int):
        self._match = match = Football(config, seed)
        self.possible_agents = [f"left_{index}" for index in range(config.players)]
        self.metadata, self.close = {"name": config.game}, match.close
        self.observation_space = lambda player: match.observation_space
        self.action_space = lambda player: match.action_space

    def reset(self, seed: int | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
        """Starts a match."""
        self.agents = self.possible_agents
        return dict(zip(self.agents, self._match.reset(seed=seed)[0], strict=True)), {}

    def step(self, actions: Mapping[str, int]) -> list[dict[str, Any]]:
        """Plays one environment frame."""
        players = self.possible_agents
        planes, rewards, *others = self._match.step([actions[player] for player in players])
        self.agents = [] if others[0] else players
        by_player = (dict(zip(players, values, strict=True)) for values in (planes, rewards))
        return [*by_player, *(dict.fromkeys(players, one) for one in others)]


class FootballPool(Pool):
    """EnvPool's matches, with the observations and actions of `Football`."""

    def __init__(self, config: FootballConfig, seeds: Sequence[int]):
        ids = [name for name in library().list_all_envs() if name.startswith(_POOL)]
        _check_scenario(config.game, [name[len(_POOL) : -len(_VERSION)] for name in ids], "EnvPool")
        self._map = np.zeros((len(seeds), 72, 96, len(_PLANES)), np.bool_)
        space: spaces.Space = spaces.Box(0, 1, self._map.shape[1:], np.bool_)
        game = f"{_POOL}{config.game}{_VERSION}"
        super().__init__(game, seeds, {}, config.envpool_threads, None, self._observe, space)
        self.metadata["render_fps"], self.render_mode = 10, "rgb_array"

    def render(self) -> Any:
        """The map of the first match, as `Football.render` draws it."""
        return [_drawn(self._map[0])]

    def _observe(self, planes: np.ndarray) -> np.ndarray:
        self._map = planes > 0
        return self._map


def _drawn(planes: np.ndarray) -> np.ndarray:
    picture = np.full((*planes.shape[:2], 3), _GRASS, np.uint8)
    for plane, color in enumerate(_PLANES.values()):
        picture[planes[..., plane]] = color
    return picture.repeat(_PIXELS, 0).repeat(_PIXELS, 1)


def _engine() -> ModuleType:
    """The module that makes environments, with its log messages at the end of every episode silenced."""
    try:
        import_gym()
        import gfootball.env
    except ImportError as error:
        raise ImportError(
            f"gfootball is not installed ({error}): run tools/install_football.sh; or play with EnvPool, "
            f"which has --map_size=96x72 and --rewards=scoring only ({how_to_install('envpool')})."
        ) from error
    logging.getLogger("absl").setLevel(logging.WARNING)
    return gfootball.env


def _check_scenario(game: str, names: Sequence[str], engine: str) -> None:
    if game not in names:
        choice = hint(game, names, f"; choose one of: {', '.join(names)}")
        raise ValueError(f"--game={game} is not a scenario of {engine}{choice}.")


def make(config: FootballConfig, seed: int, render_mode: str | None = None) -> gymnasium.Env | Game:
    """One match after another, as `Suite.make` says."""
    if config.has_players:
        return Game(FootballTeam(config, seed), config, seed)
    if config.is_vector:
        return OneOf(FootballPool(config, [seed]))
    return repeat_actions(Football(config, seed), config)


SUITE = Suite(FootballConfig, make, FootballPool)
