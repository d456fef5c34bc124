"""Suites of environments by name. To add one, write its file and add a line to the table here.

A third-party package adds one with an entry point in the group `seed_rl.environments` that has the suite's
name and refers to a `Suite`: `pong2000 = "their_package.module:SUITE"`.
"""

from seed_rl.environments.base import Suite, nearest
from seed_rl.loading import entry_points, load, load_entry

# Their modules can be imported even if the engine is not installed.
_SUITES = {
    "atari": "seed_rl.environments.suites.atari:SUITE",
    "catch": "seed_rl.environments.suites.catch:SUITE",
    "dmlab": "seed_rl.environments.suites.dmlab:SUITE",
    "envpool": "seed_rl.environments.suites.envpool:SUITE",
    "external": "seed_rl.environments.suites.external:SUITE",
    "football": "seed_rl.environments.suites.football:SUITE",
    "gym": "seed_rl.environments.suites.classic:SUITE",
    "minatar": "seed_rl.environments.suites.minatar:SUITE",
    "pettingzoo": "seed_rl.environments.suites.pettingzoo:SUITE",
    "recall": "seed_rl.environments.suites.recall:SUITE",
}

_ENTRY_POINTS = "seed_rl.environments"


def names() -> list[str]:
    """The valid names, sorted."""
    return sorted({*_SUITES, *entry_points(_ENTRY_POINTS)})


def suite(name: str) -> Suite:
    """The suite of this name; only its module is imported. Built-in suites win over those of other packages.

    Raises:
      ValueError: there is no such suite (the message lists the valid names), or a package's is not a Suite.
    """
    if name in _SUITES:
        return load(_SUITES[name])
    installed = entry_points(_ENTRY_POINTS)
    if name not in installed:
        close = nearest(name, names(), count=1)
        hint = f" (nearest: {close[0]})" if close else ""
        raise ValueError(f"--environment={name} is not valid; choose one of: {', '.join(names())}{hint}.")
    return load_entry("environment", name, installed[name], Suite)
