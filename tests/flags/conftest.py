"""Environments and agents for tests, in place of the project's registries."""

import dataclasses
from types import SimpleNamespace

import pytest

from seed_rl.algorithms.options import AlgorithmOptions
from seed_rl.environments.base import EnvironmentConfig
from seed_rl.flags import command_line, resolve, settings
from seed_rl.options import option


@dataclasses.dataclass(frozen=True)
class MazeConfig(EnvironmentConfig):
    """Settings of the maze."""

    game: str = option("small", "Which maze.")
    walls: int = option(3, "Walls.", at_least=0)


@dataclasses.dataclass(frozen=True)
class PlainConfig(EnvironmentConfig):
    """Settings of the plain."""


@dataclasses.dataclass(frozen=True)
class GreedyConfig(AlgorithmOptions):
    """Settings of the greedy agent."""

    greed: float = option(0.5, "Greed, from 0 to 1.", at_least=0, at_most=1)


def _lookup(table, kind):
    def look(name):
        if name not in table:
            raise ValueError(f"--{kind}={name} is not valid; choose one of: {', '.join(table)}.")
        return table[name]

    return look


@pytest.fixture
def registries(monkeypatch):
    suites = {
        "maze": SimpleNamespace(config_class=MazeConfig),
        "plain": SimpleNamespace(config_class=PlainConfig),
    }
    environments = SimpleNamespace(names=lambda: list(suites), suite=_lookup(suites, "environment"))
    agents = SimpleNamespace(
        names=lambda: ["greedy"],
        choices=lambda: ["greedy"],
        config_class=_lookup({"greedy": GreedyConfig}, "agent"),
    )
    for module in (command_line, resolve, settings):
        monkeypatch.setattr(module, "environments", environments)
        monkeypatch.setattr(module, "algorithms", agents)
