"""PettingZoo's games of several players: `--environment=pettingzoo --game=classic.tictactoe_v3`.

Games of PettingZoo and MPE2 have the names of their modules. With `--game=module:function` a function of
another module makes the environment, and with `--game=pickle:PATH` one in a file, which `seed_rl.train`
writes. All players share one network.
"""

import dataclasses
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

from seed_rl.environments import function_file
from seed_rl.environments.base import PICKLE, KwargsConfig, Suite, hint
from seed_rl.environments.failures import foreign
from seed_rl.environments.games import Game
from seed_rl.environments.suites.classic import import_for, refusals
from seed_rl.options import option


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


def make(config: PettingZooConfig, seed: int) -> Game:
    """One game, as `Suite.make` says.

    Raises:
      ValueError: there is no such game, it does not take one of `env_kwargs`, or its players' spaces differ.
      ImportError: PettingZoo, or a package that the game needs, is not installed.
    """
    with refusals(config.game, config.kwargs) as kwargs:
        env = foreign(_function(config.game), **kwargs)
    return Game(env, config, seed, config.player_id)


def names() -> list[str]:
    """The valid names of games, of the packages that are installed; games may need others."""
    found = []
    for package, start, pattern in (("pettingzoo", "", "*/*_v*.py"), ("mpe2", "mpe2.", "*_v*.py")):
        spec = importlib.util.find_spec(package)
        for place in spec.submodule_search_locations or () if spec else ():
            paths = (path.relative_to(place) for path in Path(place).glob(pattern))
            found += [start + ".".join(path.with_suffix("").parts) for path in paths]
    return found


def _function(game: str) -> Callable[..., Any]:
    """The function that makes a game's environment, a parallel one if there is one."""
    if game.startswith(f"{PICKLE}:"):
        return function_file.load(game.removeprefix(f"{PICKLE}:"))
    module, _, name = game.partition(":")
    if not name:
        if importlib.util.find_spec("pettingzoo") is None:
            raise ImportError("No module named 'pettingzoo'")
        short = game.removeprefix("pettingzoo.")
        if short not in (known := names()):
            own = f"; a function of another module is --game={game}:parallel_env, for instance"
            raise ValueError(f"--game={game} is not a game of PettingZoo or MPE2{hint(short, known, own)}.")
        module = short if short.startswith("mpe2.") else f"pettingzoo.{short}"
    imported = import_for(game, module)
    for function in (name,) if name else ("parallel_env", "env"):
        if callable(found := getattr(imported, function, None)):
            return found
    raise ValueError(f"--game={game} names no function of the module {module}; write module:function.")


SUITE = Suite(PettingZooConfig, make)
