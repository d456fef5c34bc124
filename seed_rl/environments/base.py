"""The interface of a suite of environments, one file that defines one `Suite`, and what several suites use.

Single environments follow the Gymnasium API (`gymnasium.Env`), so that any of its wrappers can be used.
"""

import copy
import dataclasses
import difflib
import enum
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv
from gymnasium.wrappers import RepeatAction, TransformAction

from seed_rl.files import parse_json
from seed_rl.messages import one_line
from seed_rl.options import Options, option

_SIDE = 24  # Pixels of a square.
# In the place of a module in the name of a game, in front of the path of a file with a function.
PICKLE = "pickle"


class Info(enum.Enum):
    """Keys of a step's `info` dict by which a suite changes the reported figures, never the training.

    They are not strings, so no entry of an environment's own can be taken for one of these.

    RAW_REWARD: what counts towards the reported episode return, if it is not the reward itself.
    EPISODE_CONTINUES: True if `terminated` or `truncated` is set but the reported episode continues (a life
      was lost, not the game).
    EPISODE_IS_VOID: True if the episode that ends does not count: the environment failed, or the episode was
      begun at random or cut short to bring it out of step with others.
    TERMINAL_IS_SHOWN: True if the episode has terminated and its last observation is returned, not yet the
      first of the next one. The next step is the reset.
    PLAYER_EPISODE: (return, agent steps) of a player's own episode, at the step with which its game ends, for
      all players of the game; not if it is void.
    """

    RAW_REWARD = enum.auto()
    EPISODE_CONTINUES = enum.auto()
    EPISODE_IS_VOID = enum.auto()
    TERMINAL_IS_SHOWN = enum.auto()
    PLAYER_EPISODE = enum.auto()

    __hash__ = object.__hash__  # Enum's own is slow, and these are looked up at every step.


@dataclasses.dataclass(frozen=True)
class EnvironmentConfig(Options):
    """Settings that all environments share. Each suite adds its own.

    Attributes:
      before: what options were in runs from before they existed, where that is not their default.
      easier: values for a small machine, where there is no preset.
      implied: by `OPTION=VALUE`, values of other options that come with that choice, where it is made.
    """

    before: ClassVar[Mapping[str, Any]] = {}
    easier: ClassVar[Mapping[str, Any]] = {}
    implied: ClassVar[Mapping[str, Mapping[str, Any]]] = {}

    num_action_repeats: int = option(
        1, "Environment frames per agent step: each action is applied this many times.", at_least=1
    )
    random_start_steps: int = option(
        0,
        "When an actor starts, each of its environments takes a random number of agent steps, up to this, "
        "with random actions, so that the environments of a run start apart (Stooke & Abbeel, 2018, section "
        "5.3). The episode that they belong to is not reported. seed_rl.evaluate takes none.",
        at_least=0,
    )

    def for_evaluation(self) -> "EnvironmentConfig":
        """The settings for evaluating an agent; by default those of training, without random starts."""
        return dataclasses.replace(self, random_start_steps=0)

    @property
    def is_vector(self) -> bool:
        """Whether the suite's `make_vector` makes the environments of a group, and not its `make`."""
        return False

    @property
    def has_players(self) -> bool:
        """Whether the suite's `make` makes games of several players (`games.Game`)."""
        return False

    @property
    def attaches(self) -> bool:
        """Whether programs of their own, which attach, play the environments, so that no actor is started."""
        return False

    def refuse_own_actions(self, why: str) -> None:
        """Raises ValueError if settings repeat actions or draw them at random."""
        for name, allowed in (("num_action_repeats", 1), ("random_start_steps", 0)):
            if (value := getattr(self, name)) != allowed:
                raise ValueError(f"--{name}={value} {why}; use --{name}={allowed}.")


@dataclasses.dataclass(frozen=True)
class Suite:
    """A family of environments behind one name.

    Attributes:
      config_class: a frozen dataclass that extends EnvironmentConfig; its fields become flags.
      make: makes one environment from (config, seed, render_mode), or if `config.has_players` a game
        (`games.Game`) from (config, seed). Observations are NumPy arrays (or dicts of them); the observation
        and action spaces are set. The render mode is Gymnasium's: left out, or
        "rgb_array" for an environment whose `render()` returns uint8 `[height, width, 3]`. Raises ValueError
        with one sentence for unknown games, and ImportError with one sentence that names the extra or script
        that installs a missing package.
      make_vector: makes a `gymnasium.vector.VectorEnv` with an environment for each seed, from (config,
        seeds), and raises what `make` raises. It is called if `config.is_vector`.
    """

    config_class: type[EnvironmentConfig]
    make: Callable[..., Any]
    make_vector: Callable[..., VectorEnv] | None = None


def repeat_actions(env: gymnasium.Env, config: EnvironmentConfig) -> gymnasium.Env:
    """Applies each action for `config.num_action_repeats` environment frames and sums the rewards.

    The repeat stops if the episode ends. The observation and the info are those of the last frame.
    """
    if config.num_action_repeats == 1:
        return env
    # An environment may change an action in place; each frame gets the same one.
    return RepeatAction(TransformAction(env, copy.copy, None), config.num_action_repeats)


def draw_board(board: np.ndarray) -> np.ndarray:
    """Draws a board `[rows, columns]`, from 0 (dark) to 1 (light), as squares: uint8 `[height, width, 3]`."""
    shades = (255 * np.clip(board, 0.0, 1.0)).astype(np.uint8)
    squares = np.kron(shades, np.ones((_SIDE, _SIDE), np.uint8))
    squares[::_SIDE] = np.maximum(squares[::_SIDE], 40)  # a grid
    squares[:, ::_SIDE] = np.maximum(squares[:, ::_SIDE], 40)
    return np.repeat(squares[..., np.newaxis], 3, axis=-1)


def raw_reward(reward: Any, info: Mapping[Any, Any]) -> float:
    """Reward of a step that counts in the reported episode return."""
    return float(info.get(Info.RAW_REWARD, reward))


def ends_episode(ended: bool, info: Mapping[Any, Any]) -> bool:
    """Whether the reported episode ends with a step that `terminated` or `truncated` the environment's."""
    return ended and not info.get(Info.EPISODE_CONTINUES, False)


def nearest(name: str, valid: Iterable[str], count: int = 3) -> list[str]:
    """Up to `count` of the valid names that resemble `name`, best first; letter case is ignored."""
    by_lower = {candidate.lower(): candidate for candidate in sorted(valid)}
    return [by_lower[match] for match in difflib.get_close_matches(name.lower(), by_lower, n=count)]


def hint(name: str, valid: Iterable[str], otherwise: str = "") -> str:
    """Ending for the refusal of a name: the nearest valid names; `otherwise` if none resembles it."""
    close = nearest(name, valid)
    return f"; the nearest are: {', '.join(close)}" if close else otherwise


_FORM = """write it like --env_kwargs='{"size": 7}'"""


@dataclasses.dataclass(frozen=True)
class KwargsConfig(EnvironmentConfig):
    """Settings of environments whose constructors have arguments of their own."""

    env_kwargs: str = option(
        "{}",
        "Arguments of the environment's constructor, as a JSON object by name: '{\"size\": 7}'.",
    )

    @property
    def kwargs(self) -> dict[str, Any]:
        """The arguments by name."""
        return parse_json(self.env_kwargs)

    def _check_kwargs(self, refused: Mapping[str, str]) -> None:
        """Checks `env_kwargs`, and writes it in one form, so that equal arguments compare as equal.

        `refused` has names that it must not have, and what to do instead.
        """
        shown = f"--env_kwargs={one_line(self.env_kwargs, 100)}"
        try:
            kwargs = self.kwargs
        except ValueError as error:
            raise ValueError(f"{shown} is not JSON ({error}); {_FORM}.") from None
        if not isinstance(kwargs, dict):
            raise ValueError(f"{shown} is not a JSON object; {_FORM}.")
        for name, instead in refused.items():
            if name in kwargs:
                raise ValueError(f"{shown} must not have {name!r}: {instead}.")
        object.__setattr__(self, "env_kwargs", json.dumps(kwargs, sort_keys=True))
