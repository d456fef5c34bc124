"""Atari 2600 games through ale-py, processed as in Table 9 of the SEED RL paper.

Each observation is a single frame: stacking happens on the learner. The emulator is driven directly, so that
only the frames that contribute to an observation are converted to grayscale.

EnvPool (`--engine=envpool`) and ale-py's own vector environment give the same frames, but are not faster on
one core; docs/environments.md has the figures.
"""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces

from seed_rl.environments.base import Info, Suite, hint
from seed_rl.environments.suites.envpool import Pool, PoolConfig, library
from seed_rl.environments.vector import OneOf
from seed_rl.messages import how_to_install
from seed_rl.options import option

_NOOP = 0
_VERSION = "-v5"  # of EnvPool's ids
_NO_LIMIT = 2**31 - 1  # environment frames
# Gymnasium's and ALE's ids: ALE/Breakout-v5, BreakoutNoFrameskip-v4, Breakout-ramDeterministic-v0.
_ID = re.compile(r"^(ALE/)?(?P<game>\w+?)(-ram)?(NoFrameskip|Deterministic)?(-v\d+)?$")

# EnvPool plays no-ops after a lost life as well, and before every game. It shows only 210 lines of a screen,
# and its screens of these games are wrong, which have more.
_NOT_IN_ENVPOOL = {"terminal_on_life_loss": True, "max_random_noops": 0, "halve_screen": True}
_TALL = frozenset(("Adventure", "AirRaid", "Carnival", "JourneyEscape", "KeystoneKapers", "KingKong", "Klax"))
_TALL |= {"LaserGates", "MrDo", "Pacman", "Pooyan", "SirLancelot", "SpaceWar"}

# Chance is in the sticky actions, and not in no-ops.
_MACHADO = {"sticky_action_probability": 0.25, "terminal_on_life_loss": False, "max_random_noops": 0}


@dataclasses.dataclass(frozen=True)
class AtariConfig(PoolConfig):
    """Settings of Atari; the defaults are those of Table 9."""

    easier: ClassVar[Mapping[str, Any]] = {"full_action_space": False, "terminal_on_life_loss": True}
    implied: ClassVar[Mapping[str, Mapping[str, Any]]] = {"protocol=machado": _MACHADO}

    num_action_repeats: int = option(
        4, "Environment frames per agent step: each action is applied this many times (paper: 4).", at_least=1
    )
    game: str = option("Pong", "Name of the game, such as Pong or SpaceInvaders.")
    protocol: str = option(
        "noops",
        "What makes games differ, in training and in evaluation. noops: random no-ops at their start, as in "
        "the paper; the options below may change it. machado: --sticky_action_probability=0.25 "
        "--terminal_on_life_loss=false --max_random_noops=0 (Machado et al., 2018, section 5), with either "
        "--full_action_space.",
        choices=("noops", "machado"),
    )
    full_action_space: bool = option(
        True,
        "Use all actions that the emulator accepts for the game (18 as in the paper; Skiing: 9) instead "
        "of only those that have an effect.",
    )
    sticky_action_probability: float = option(
        0.0,
        "Probability, per environment frame, that the emulator repeats the previous action (paper: 0).",
        at_least=0,
        at_most=1,
    )
    terminal_on_life_loss: bool = option(
        False, "Terminate the agent's episode, but not the reported one, when a life is lost (paper: off)."
    )
    max_random_noops: int = option(
        30,
        "An episode starts with a random number of no-op environment frames, from 1 to this many; 0: none "
        "(paper: 30).",
        at_least=0,
    )
    max_episode_frames: int | None = option(
        108_000,
        "Time limit of an episode, in environment frames, including no-ops; a longer episode is truncated "
        "(paper: 108,000, which is 30 minutes).",
        at_least=1,
    )
    screen_size: int = option(84, "Height and width of observations, in pixels (paper: 84).", at_least=1)
    halve_screen: bool = option(
        False,
        "Crop the screen's last two rows and halve it, to 104x80 pixels, in place of --screen_size "
        "(Stooke & Abbeel, 2018, section 5.1).",
    )
    engine: str = option(
        "ale-py",
        "What plays: ale-py; or envpool, with which --max_episode_frames begins after the no-ops.",
        choices=("ale-py", "envpool"),
    )

    @property
    def is_vector(self) -> bool:
        """Whether EnvPool steps the environments of a group."""
        return self.engine == "envpool"

    def for_evaluation(self) -> "AtariConfig":
        """Whole games of at most 108,000 frames: the paper's start with 1 to 30 no-ops, Machado's do not."""
        return dataclasses.replace(
            self,
            random_start_steps=0,
            terminal_on_life_loss=False,
            max_random_noops=0 if self.protocol == "machado" else 30,
            max_episode_frames=108_000,
        )

    def validate(self) -> None:
        """Checks the protocol, that no-ops leave frames to play, and the engine's limits."""
        for name, value in _MACHADO.items() if self.protocol == "machado" else ():
            if getattr(self, name) != value:
                raise ValueError(
                    f"--protocol=machado has --{name}={str(value).lower()}; leave out "
                    f"--{name}={str(getattr(self, name)).lower()}."
                )
        if self.engine == "envpool":
            for name, value in _NOT_IN_ENVPOOL.items():
                if getattr(self, name) == value:
                    raise ValueError(f"--{name}={value} is not possible with EnvPool; use --engine=ale-py.")
        if self.max_episode_frames is not None and self.max_episode_frames <= self.max_random_noops:
            raise ValueError(
                f"--max_episode_frames={self.max_episode_frames} must be greater than "
                f"--max_random_noops={self.max_random_noops}."
            )
        if self.halve_screen and self.screen_size != 84:
            raise ValueError(
                f"--halve_screen sets the size of observations; leave out --screen_size={self.screen_size}."
            )


class Atari(gymnasium.Env):
    """One game.

    Observations are uint8 and belong to the caller. Their shape is `[screen_size, screen_size]`; with
    `halve_screen` it is `[rows // 4 * 2, columns // 2]`, which is `[104, 80]` for the screens of most games.

    * Pooling: an observation is the pixel-wise maximum of the last two environment frames, whatever the
      action repeat; with a repeat of 1 these are the frames of this and the previous agent step.
      At the start of an episode, or if it ends in mid-repeat, the observation is the newest frame alone.
    * Life loss (if `terminal_on_life_loss`): the step terminates with `info[Info.EPISODE_CONTINUES]`, and the
      `reset` after it returns the same frame and lets the game continue. No frame is played, so no reward or
      game over can be lost in between. After a game over or the time limit, `reset` starts a new game.
    """

    def __init__(self, config: AtariConfig, seed: int):
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": 60}
        self.render_mode = "rgb_array"
        try:
            import ale_py
            import cv2
        except ImportError as error:
            raise ImportError(
                f"Atari needs ale-py and OpenCV ({error.name} is missing); {how_to_install('atari')}."
            ) from error
        cv2.setNumThreads(1)  # actors share the cores, so each uses one thread
        self._cv2 = cv2
        self._config = config
        self._rom = _rom(config.game)
        ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
        self._ale = ale_py.ALEInterface()
        self._ale.setFloat("repeat_action_probability", config.sticky_action_probability)
        super().reset(seed=seed)
        self._load()
        actions = (
            self._ale.getLegalActionSet() if config.full_action_space else self._ale.getMinimalActionSet()
        )
        self._actions = [action.value for action in actions]
        self.action_space = spaces.Discrete(len(actions))
        screen = self._ale.getScreenDims()
        self._shape = (
            (screen[0] // 4 * 2, screen[1] // 2) if config.halve_screen else (config.screen_size,) * 2
        )
        self.observation_space = spaces.Box(0, 255, self._shape, np.uint8)
        # The last two environment frames, grayscale; `_newest` is the index of the newer one.
        self._frames = [np.zeros(screen, np.uint8), np.zeros(screen, np.uint8)]
        self._newest = 0
        self._pooled = np.zeros(screen, np.uint8)
        self._episode_frames = 0
        self._lives = 0
        self._life_lost = False

    def get_action_meanings(self) -> list[str]:
        """The names of the actions, as the emulator has them."""
        import ale_py

        return [ale_py.Action(action).name for action in self._actions]

    def get_keys_to_action(self) -> dict[str, int]:
        """Actions by the keys that are pressed together: w, a, s and d for directions, and space to fire."""
        letters = {"UP": "w", "LEFT": "a", "DOWN": "s", "RIGHT": "d", "FIRE": " "}
        return {
            "".join(letter for word, letter in letters.items() if word in name): action
            for action, name in enumerate(self.get_action_meanings())
        }

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        """Starts a game with random no-ops, or continues after a lost life. With a seed it starts a game."""
        super().reset(seed=seed)
        if seed is not None:
            self._load()
        elif self._life_lost:
            self._life_lost = False
            return self._observation(), {}
        self._life_lost = False
        self._ale.reset_game()
        self._episode_frames = 0
        self._capture()
        self._play_noops()
        self._lives = self._ale.lives()
        return self._observation(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """One agent step: `num_action_repeats` environment frames, or fewer if the episode ends."""
        config = self._config
        emulator_action = self._actions[action]
        frames = config.num_action_repeats
        if config.max_episode_frames is not None:
            frames = max(1, min(frames, config.max_episode_frames - self._episode_frames))
        reward, game_over, life_lost = 0, False, False
        for remaining in range(frames - 1, -1, -1):
            reward += self._ale.act(emulator_action)
            self._episode_frames += 1
            game_over = self._ale.game_over()
            life_lost = config.terminal_on_life_loss and self._loses_life()
            if game_over or life_lost:
                self._capture(pool=remaining == 0)
                break
            if remaining < 2:
                self._capture(pool=True)
        timed_out = (
            config.max_episode_frames is not None and self._episode_frames >= config.max_episode_frames
        )
        self._life_lost = life_lost and not game_over and not timed_out
        info: dict[Any, Any] = {Info.EPISODE_CONTINUES: True} if self._life_lost else {}
        return self._observation(), float(reward), game_over or life_lost, timed_out, info

    def render(self) -> np.ndarray:
        """The screen as the player sees it, uint8 `[210, 160, 3]` in most games."""
        return self._ale.getScreenRGB()

    def _load(self) -> None:
        """(Re)starts the emulator with a seed from `np_random`."""
        self._ale.setInt("random_seed", int(self.np_random.integers(2**31)))
        self._ale.loadROM(self._rom)

    def _play_noops(self) -> None:
        if self._config.max_random_noops == 0:
            return
        for _ in range(int(self.np_random.integers(1, self._config.max_random_noops, endpoint=True))):
            self._ale.act(_NOOP)
            self._episode_frames += 1
            if self._ale.game_over():
                self._ale.reset_game()
                self._episode_frames = 0
        self._capture()

    def _loses_life(self) -> bool:
        """True if a life was lost in the last frame and at least one is left."""
        lives, self._lives = self._lives, self._ale.lives()
        return 0 < self._lives < lives

    def _capture(self, pool: bool = False) -> None:
        """Fetches the newest frame; unless `pool`, it also overwrites the previous one."""
        self._newest = 1 - self._newest
        self._ale.getScreenGrayscale(self._frames[self._newest])
        if not pool:
            self._frames[1 - self._newest][:] = self._frames[self._newest]

    def _observation(self) -> np.ndarray:
        np.maximum(self._frames[0], self._frames[1], out=self._pooled)
        frame = self._pooled[: 2 * self._shape[0]] if self._config.halve_screen else self._pooled
        return self._cv2.resize(frame, self._shape[::-1], interpolation=self._cv2.INTER_LINEAR)


class AtariPool(Pool):
    """EnvPool's games, as `Atari` plays them, but with random numbers of its own."""

    def __init__(self, config: AtariConfig, seeds: Sequence[int], render_mode: str | None = None):
        known = [name[: -len(_VERSION)] for name in library().list_all_envs() if _is_atari(name)]
        if config.game not in known or config.game in _TALL:
            playable = sorted({*known} - _TALL)
            raise ValueError(
                f"--game={config.game} cannot be played with EnvPool{hint(config.game, playable)}; or use "
                "--engine=ale-py."
            )
        frames = config.max_episode_frames or _NO_LIMIT
        settings = {
            "stack_num": 1,
            "frame_skip": config.num_action_repeats,
            "noop_max": config.max_random_noops,
            "use_fire_reset": False,
            "full_action_space": config.full_action_space,
            "repeat_action_probability": config.sticky_action_probability,
            "use_inter_area_resize": False,
            "img_height": config.screen_size,
            "img_width": config.screen_size,
            "max_episode_steps": -(-frames // config.num_action_repeats),
        }
        space = spaces.Box(0, 255, (config.screen_size,) * 2, np.uint8)
        super().__init__(
            f"{config.game}{_VERSION}",
            seeds,
            settings,
            config.envpool_threads,
            render_mode,
            lambda frames: frames[:, 0],
            space,
        )


def _is_atari(name: str) -> bool:
    from envpool.registration import registry

    return registry.specs[name][0] == "envpool.atari"


def make(config: AtariConfig, seed: int, render_mode: str | None = None) -> gymnasium.Env:
    """One game, as `Suite.make` says."""
    if config.is_vector:
        return OneOf(AtariPool(config, [seed], render_mode))
    return Atari(config, seed)


def find_game(name: str) -> str | None:
    """Our name for a game, from that name in any letter case or an id; None without such a game or ale-py."""
    try:
        from ale_py import registration
    except ImportError:
        return None
    found = _ID.match(name)
    rom_id = _rom_ids().get(found["game"].replace("_", "").lower()) if found else None
    return registration.rom_id_to_name(rom_id) if rom_id else None


def _rom_ids() -> dict[str, str]:
    """ale-py's name for each game, by that name without underscores."""
    from ale_py import roms

    return {rom_id.replace("_", ""): rom_id for rom_id in roms.get_all_rom_ids()}


def _rom(game: str) -> str:
    """Path of a game's ROM; 'MsPacman' and 'ms_pacman' are the same game."""
    from ale_py import ALEInterface, registration, roms

    rom_id = _rom_ids().get(game.replace("_", "").lower())
    if rom_id is None:
        names = map(registration.rom_id_to_name, roms.get_all_rom_ids())
        known = find_game(game)
        nearest = f"; write --game={known}" if known else hint(game.replace("_", ""), names)
        raise ValueError(f"--game={game} is not an Atari game that ale-py includes{nearest}.")
    path = roms.get_rom_path(rom_id)
    if path is None or not ALEInterface.isSupportedROM(path):  # loading it would end the process
        raise ValueError(
            f"--game={game} is not supported: ale-py ships it, but cannot play it with one player."
        )
    return str(path)


SUITE = Suite(AtariConfig, make, AtariPool)
