"""Settings of a command: the value of every option, and its origin; frozen. Its environment and agent exist.

`flags.resolve` decides them once. A launcher writes them to a file, which its children read (--settings).
"""

import dataclasses
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from seed_rl.algorithms import registry as algorithms
from seed_rl.algorithms.options import AlgorithmOptions
from seed_rl.environments import registry as environments
from seed_rl.environments.base import EnvironmentConfig, nearest
from seed_rl.environments.suites.atari import find_game
from seed_rl.environments.suites.classic import find_id
from seed_rl.environments.suites.envpool import find_own_id
from seed_rl.files import read_json
from seed_rl.flags.definitions import OptionsT, option_names
from seed_rl.flags.errors import UsageError
from seed_rl.options import Options

# Origins of defaults: the option's own, and the algorithm's for the chosen environment.
DEFAULT, ALGORITHM = "default", "algorithm"
FLAG = "flag"
PRESET = "preset "  # And its name.


@dataclasses.dataclass(frozen=True)
class Settings:
    """The value of every option of a command, by the option's name.

    Attributes:
      environment: name of the environment suite; empty if an actor leaves it to its learner.
      agent: name of the agent; None for a command that takes none.
      values: values as JSON has them.
      origins: where each value comes from, in words.
    """

    environment: str
    agent: str | None
    values: Mapping[str, Any]
    origins: Mapping[str, str]

    @property
    def environment_class(self) -> type[EnvironmentConfig] | None:
        """The suite's options; None if there is no suite."""
        return environments.suite(self.environment).config_class if self.environment else None

    @property
    def agent_class(self) -> type[AlgorithmOptions] | None:
        """The agent's options; None if there is no agent."""
        return algorithms.config_class(self.agent) if self.agent else None

    @property
    def preset(self) -> str | None:
        """The name of the preset; None if there is none."""
        return next((o.removeprefix(PRESET) for o in self.origins.values() if o.startswith(PRESET)), None)

    def read(self, config_class: type[OptionsT], **fixed: Any) -> OptionsT:
        """The validated options of a class; `fixed` values take precedence.

        Raises:
          UsageError: an invalid value.
        """
        values = {name: self.values[name] for name in option_names(config_class) & self.values.keys()}
        try:
            return config_class.of(**{**values, **fixed})
        except ValueError as error:
            raise UsageError(str(error)) from error

    def environment_config(self) -> EnvironmentConfig:
        """The chosen environment's options, validated (UsageError)."""
        assert self.environment_class is not None
        return self.read(self.environment_class)

    def agent_config(self) -> Options:
        """The chosen agent's options, validated (UsageError)."""
        assert self.agent_class is not None
        return self.read(self.agent_class)

    def is_chosen(self, name: str) -> bool:
        """Whether an option has a value of another origin than defaults."""
        return self.origins.get(name, DEFAULT) not in (DEFAULT, ALGORITHM)

    def chosen_origins(self) -> dict[str, str]:
        """The origins of the options that were chosen."""
        return {name: origin for name, origin in self.origins.items() if self.is_chosen(name)}

    def chosen_environment(self) -> dict[str, Any]:
        """The environment and its options that were chosen; JSON values, validated (UsageError)."""
        if self.environment_class is None:
            return {}
        settings = self.environment_config().to_dict()
        return {"environment": self.environment} | {
            name: value for name, value in settings.items() if self.is_chosen(name)
        }

    def replaced(self, origin: str, **values: Any) -> "Settings":
        """The settings with these values in the place of others."""
        origins = {**self.origins, **dict.fromkeys(values, origin)}
        return dataclasses.replace(self, values={**self.values, **values}, origins=origins)

    def to_json(self) -> str:
        """The contents of a file for `read_file`."""
        return json.dumps(dataclasses.asdict(self), indent=1) + "\n"

    @classmethod
    def read_file(cls, path: str) -> "Settings":
        """The settings in a file.

        Raises:
          UsageError: it cannot be read, or has something else.
        """
        try:
            settings = cls(**read_json(Path(path)))
            if not (isinstance(settings.values, dict) and isinstance(settings.origins, dict)):
                raise ValueError("it has no values by name")
            check_choices(settings.environment or None, settings.agent)
            return settings
        except (OSError, ValueError, TypeError) as error:
            raise UsageError(f"--settings={path} cannot be read ({error}); name a launcher's file.") from None


# The environments whose games have names of other libraries.
_GAMES: dict[str, Callable[[str], str | None]] = {
    "atari": find_game,
    "envpool": find_own_id,
    "gym": find_id,
}

# Families of environments, and an example of each in the environment that has it.
FAMILIES = {
    "ale": ("atari", "Pong"),
    "babyai": ("gym", "minigrid:BabyAI-GoToObj-v0"),
    "box2d": ("gym", "LunarLander-v3"),
    "classic_control": ("gym", "CartPole-v1"),
    "dm_control": ("envpool", "CartpoleSwingup-v1"),
    "dmc": ("envpool", "CartpoleSwingup-v1"),
    "gymnasium": ("gym", "CartPole-v1"),
    "minigrid": ("gym", "minigrid:MiniGrid-Empty-5x5-v0"),
    "mujoco": ("gym", "HalfCheetah-v5"),
    "procgen": ("envpool", "CoinrunEasy-v0"),
    "toy_text": ("gym", "FrozenLake-v1"),
    "vizdoom": ("envpool", "Basic-v1"),
}


def check_choices(environment: str | None, agent: str | None) -> None:
    """Checks the names of the environment and the agent, as far as they are given.

    Raises:
      UsageError: there is no such environment or agent; the message has the command that was likely meant.
    """
    agents = algorithms.choices()
    if environment is None or environment in environments.names():
        return
    if environment in agents and agent in environments.names():
        raise UsageError(
            f"--environment={environment} is not valid: the environment comes first, then the agent; write "
            f"{agent} {environment}."
        )
    if environment in agents:
        raise UsageError(
            f"--environment={environment} is not valid: it is an agent, which comes second; write "
            f"ENVIRONMENT {environment}, with one of: {', '.join(environments.names())}."
        )
    if found := FAMILIES.get(environment.lower().replace("-", "_")):
        suite, example = found
        raise UsageError(
            f"--environment={environment} is not valid: it is part of {suite}; write {suite} "
            f"{agent if agent in agents else 'AGENT'} --game={example}, for instance."
        )
    for suite, find in _GAMES.items():
        if game := find(environment):
            raise UsageError(
                f"--environment={environment} is not valid: it is a game of {suite}; write {suite} "
                f"{agent if agent in agents else 'AGENT'} --game={game}."
            )
    close = nearest(environment, environments.names(), count=1)
    guess = f"did you mean {close[0]}? Choose" if close else "choose"
    raise UsageError(
        f"--environment={environment} is not valid; {guess} one of: {', '.join(environments.names())}."
    )
