"""PettingZoo's games of several players: `--environment=pettingzoo --game=classic.tictactoe_v3`.

Games of PettingZoo and MPE2 have the names of their modules. With `--game=module:function` a function of
another module makes the environment, and with `--game=pickle:PATH` one in a file, which `seed_rl.train`
writes. All players share one network.
"""

import dataclasses
import importlib
import importlib.util
import pkgutil
import re
from collections.abc import Callable
from typing import Any, NoReturn

from seed_rl.environments import function_file
from seed_rl.environments.base import PICKLE, KwargsConfig, Suite, hint
from seed_rl.environments.failures import foreign
from seed_rl.environments.games import Game, as_game
from seed_rl.messages import how_to_install
from seed_rl.options import option

_PACKAGES = ("pettingzoo.atari", "pettingzoo.butterfly", "pettingzoo.classic", "pettingzoo.sisl", "mpe2")
_VERSION = re.compile(r"_v\d+$")


@dataclasses.dataclass(frozen=True)
class PettingZooConfig(KwargsConfig):
    """Settings of PettingZoo's games."""

    game: str = option(
        "mpe2.simple_spread_v3",
        "Name of a game of PettingZoo or MPE2, such as classic.connect_four_v3; or module:function, where "
        "the function of another module makes a ParallelEnv or an AECEnv.",
        is_code=True,
    )
    player_id: bool = option(
        False,
        "Whether players see which one they are: observations get an entry player_id, with a 1 at the "
        "player's place in possible_agents.",
    )

    @property
    def has_players(self) -> bool:
        """Always True."""
        return True

    def validate(self) -> None:
        """Checks `env_kwargs`."""
        self._check_kwargs({"render_mode": "leave it out, since no pictures of games are made"})


def make_game(config: PettingZooConfig, seed: int) -> Game:
    """One game, as `Suite.make_game` says.

    Raises:
      ValueError: there is no such game, it does not take one of `env_kwargs`, or its players' spaces differ.
      ImportError: PettingZoo, or a package that the game needs, is not installed.
    """
    function, kwargs = _function(config.game), config.kwargs
    try:
        env = foreign(function, **kwargs)
    except TypeError as error:
        match = re.search(r"unexpected keyword argument '(\w+)'", str(error))
        if not match or match[1] not in kwargs:
            raise
        raise ValueError(
            f"--game={config.game} does not take the argument {match[1]!r} of --env_kwargs; leave it out, or "
            "look up the names that it takes."
        ) from error
    except ImportError as error:
        raise _missing(config.game, error) from error
    return as_game(env, seed, config.player_id)


def make(config: PettingZooConfig, seed: int, render_mode: str | None = None) -> NoReturn:
    """Refuses to make an environment for one player (ValueError)."""
    raise ValueError(f"--game={config.game} has several players; it makes no environment for a single one.")


def names() -> list[str]:
    """The valid names of games, of the packages that are installed; games may need others."""
    found = []
    for package in _PACKAGES:
        top, _, family = package.partition(".")
        spec = importlib.util.find_spec(top)
        for place in spec.submodule_search_locations or () if spec else ():
            modules = pkgutil.iter_modules([f"{place}/{family}"])
            found += [f"{family or top}.{one.name}" for one in modules if _VERSION.search(one.name)]
    return found


def _function(game: str) -> Callable[..., Any]:
    """The function that makes a game's environment, a parallel one if there is one."""
    if game.startswith(f"{PICKLE}:"):
        return function_file.of_game(game)
    module, _, name = game.partition(":")
    if not name:
        game = game.removeprefix("pettingzoo.")
        if importlib.util.find_spec("pettingzoo") is None:
            raise ImportError(f"PettingZoo is not installed; {how_to_install('pettingzoo')}.")
        if game not in (known := names()):
            own = f"; a function of another module is --game={game}:parallel_env, for instance"
            raise ValueError(f"--game={game} is not a game of PettingZoo or MPE2{hint(game, known, own)}.")
        module = game if game.startswith("mpe2.") else f"pettingzoo.{game}"
    try:
        imported = foreign(importlib.import_module, module)
    except ImportError as error:
        raise _missing(game, error) from error
    for function in (name,) if name else ("parallel_env", "env"):
        if callable(found := getattr(imported, function, None)):
            return found
    raise ValueError(f"--game={game} names no function of the module {module}; write module:function.")


def _missing(game: str, error: ImportError) -> ImportError:
    extra = "" if error.name not in ("mpe2", "pettingzoo", "pygame") else f"; {how_to_install('pettingzoo')}"
    return ImportError(f"--game={game} needs what cannot be imported ({error}){extra}.")


SUITE = Suite(PettingZooConfig, make, make_game=make_game)
