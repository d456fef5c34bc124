"""Settings of a command: the value of every option, and its origin; frozen. Its environment and agent exist.

`flags.resolve` decides them once. A launcher writes them to a file, which its children read (--settings).
"""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from seed_rl.algorithms import registry as algorithms
from seed_rl.algorithms.options import AlgorithmOptions
from seed_rl.environments import registry as environments
from seed_rl.environments.base import EnvironmentConfig, nearest
from seed_rl.files import read_json
from seed_rl.flags.definitions import OptionsT, read_options
from seed_rl.flags.errors import UsageError
from seed_rl.loading import load

# Origins of defaults: the option's own, and the algorithm's for the chosen environment.
DEFAULT, ALGORITHM = "default", "algorithm"
FLAG = "flag"
PRESET = "preset "  # And its name.


@dataclasses.dataclass(frozen=True)
class Settings:
    """The value of every option of a command, by the option's name.

    A learner imports no suite of environments, so all that it needs of one is here as JSON values.

    Attributes:
      environment: name of the environment suite; empty if an actor leaves it to its learner.
      agent: name of the agent; None for a command that takes none.
      values: values as JSON has them.
      origins: where each value comes from, in words.
      environment_settings: all settings of the suite, validated, in the form that it gives them.
      environment_before: what these were in runs from before they existed.
      environment_code: the names of those that name code to import.
    """

    environment: str
    agent: str | None
    values: Mapping[str, Any]
    origins: Mapping[str, str]
    environment_settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    environment_before: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    environment_code: Sequence[str] = ()

    @property
    def agent_class(self) -> type[AlgorithmOptions] | None:
        """The agent's options; None if there is no agent."""
        return algorithms.config_class(self.agent) if self.agent else None

    @property
    def preset(self) -> str | None:
        """The name of the preset; None if there is none."""
        return next((o.removeprefix(PRESET) for o in self.origins.values() if o.startswith(PRESET)), None)

    def read(self, config_class: type[OptionsT], **fixed: Any) -> OptionsT:
        """The validated options of a class; `fixed` values take precedence (UsageError)."""
        return read_options(config_class, {**self.values, **fixed})

    def environment_config(self) -> EnvironmentConfig:
        """The chosen environment's options, validated (UsageError). Imports the suite."""
        return self.read(environments.suite(self.environment).config_class)

    def agent_config(self) -> AlgorithmOptions:
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
        """The environment and its options that were chosen; JSON values."""
        chosen = {name: value for name, value in self.environment_settings.items() if self.is_chosen(name)}
        return {"environment": self.environment, **chosen} if self.environment else {}

    def replaced(self, origin: str, **values: Any) -> "Settings":
        """The settings with these values in the place of others."""
        origins = {**self.origins, **dict.fromkeys(values, origin)}
        return dataclasses.replace(self, values={**self.values, **values}, origins=origins)

    def of_environment(self) -> "Settings":
        """The settings with the environment's, if one is chosen, as its suite validates them (UsageError)."""
        if not self.environment:
            return self
        config = self.environment_config()
        own, before = config.to_dict(), {**config.defaults(), **config.before}
        return dataclasses.replace(
            self,
            environment_settings=own,
            environment_before=before,
            environment_code=config.named_code(own),
        )

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
            if not all(isinstance(part, dict) for part in (settings.values, settings.origins)):
                raise ValueError("it has no values by name")
            check_choices(settings.environment or None, settings.agent)
            return settings
        except (OSError, ValueError, TypeError) as error:
            raise UsageError(f"--settings={path} cannot be read ({error}); name a launcher's file.") from None


# The environments whose games have names of other libraries, and the functions that find these.
_GAMES = {
    "atari": "seed_rl.environments.suites.atari:find_game",
    "envpool": "seed_rl.environments.suites.envpool:find_own_id",
    "gym": "seed_rl.environments.suites.classic:find_id",
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
    names = environments.names()
    if environment is not None and environment not in names:
        raise UsageError(f"--environment={environment} is not valid{_meant(environment, agent, names)}.")


def _meant(environment: str, agent: str | None, names: Sequence[str]) -> str:
    """End of the sentence that refuses an environment."""
    agents, valid = algorithms.choices(), ", ".join(names)
    if environment in agents and agent in names:
        return f": the environment comes first, then the agent; write {agent} {environment}"
    if environment in agents:
        return f": it is an agent, which comes second; write ENVIRONMENT {environment}, with one of: {valid}"
    agent = agent if agent in agents else "AGENT"
    if found := FAMILIES.get(environment.lower().replace("-", "_")):
        suite, example = found
        return f": it is part of {suite}; write {suite} {agent} --game={example}, for instance"
    for suite, find in _GAMES.items():
        if game := load(find)(environment):
            return f": it is a game of {suite}; write {suite} {agent} --game={game}"
    close = nearest(environment, names, count=1)
    return f"; {f'did you mean {close[0]}? Choose' if close else 'choose'} one of: {valid}"
