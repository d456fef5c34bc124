"""Algorithms by name. To add one, write its files and add a line to the table here. Imports no TensorFlow."""

import importlib
from typing import TYPE_CHECKING, Any, NamedTuple

from seed_rl.options import Options
from seed_rl.types import EnvironmentSpec

if TYPE_CHECKING:
    from seed_rl.agents.base import Agent


class _Entry(NamedTuple):
    """Where an algorithm lives, as `module:attribute`.

    config_class: a frozen `Options` dataclass whose fields become flags; its module imports no TensorFlow.
    make_agent: a function of (config, env_spec, num_envs) that returns an Agent.
    """

    config_class: str
    make_agent: str


_AGENTS = {
    "r2d2": _Entry("seed_rl.agents.r2d2_config:R2D2Config", "seed_rl.agents.r2d2:make_agent"),
    "vtrace": _Entry("seed_rl.agents.vtrace_config:VTraceConfig", "seed_rl.agents.vtrace:make_agent"),
}


def names() -> list[str]:
    """The valid names, sorted."""
    return sorted(_AGENTS)


def config_class(name: str) -> type[Options]:
    """The settings of an algorithm; does not import TensorFlow.

    Raises:
      ValueError: there is no such algorithm; the sentence lists the valid names.
    """
    return _load(_entry(name).config_class)


def make_agent(name: str, config: Options, env_spec: EnvironmentSpec, num_envs: int) -> "Agent":
    """An agent with fresh weights; imports TensorFlow.

    Args:
      name: one of `names()`.
      config: an instance of `config_class(name)`.
      env_spec: what the agent plays.
      num_envs: environments that ask for actions; their ids are 0 to num_envs - 1.

    Raises:
      ValueError: there is no such algorithm, or its settings do not fit the environment.
    """
    return _load(_entry(name).make_agent)(config, env_spec, num_envs)


def _entry(name: str) -> _Entry:
    if name not in _AGENTS:
        raise ValueError(f"--agent={name} is not valid; choose one of: {', '.join(names())}.")
    return _AGENTS[name]


def _load(location: str) -> Any:
    module, attribute = location.split(":")
    return getattr(importlib.import_module(module), attribute)
