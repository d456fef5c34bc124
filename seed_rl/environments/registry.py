"""Suites of environments by name. To add one, write its file and add a line to the table here."""

import importlib

from seed_rl.environments.base import Suite
from seed_rl.environments.nearest import nearest

# A suite's module defines `SUITE`, and can be imported where the suite's engine is not installed.
_MODULES = {
    "atari": "seed_rl.environments.atari",
    "catch": "seed_rl.environments.catch",
    "gym": "seed_rl.environments.classic",
    "recall": "seed_rl.environments.recall",
}


def names() -> list[str]:
    """The valid names, sorted."""
    return sorted(_MODULES)


def suite(name: str) -> Suite:
    """The suite of that name; only its own module is imported.

    Raises:
      ValueError: there is no such suite; the sentence lists the valid names.
    """
    if name not in _MODULES:
        close = nearest(name, names(), count=1)
        hint = f" (nearest: {close[0]})" if close else ""
        raise ValueError(f"--environment={name} is not valid; choose one of: {', '.join(names())}{hint}.")
    return importlib.import_module(_MODULES[name]).SUITE
