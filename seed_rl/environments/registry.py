"""Suites of environments by name. To add one, write its file and add a line to the table here.

A package of somebody else's adds one with an entry point in the group `seed_rl.environments`, which has the
suite's name and is a `Suite`: `pong2000 = "their_package.module:SUITE"`.
"""

import importlib
import importlib.metadata

from seed_rl.environments.base import Suite
from seed_rl.environments.nearest import nearest

# A suite's module defines `SUITE`, and can be imported where the suite's engine is not installed.
_MODULES = {
    "atari": "seed_rl.environments.atari",
    "catch": "seed_rl.environments.catch",
    "dmlab": "seed_rl.environments.dmlab",
    "football": "seed_rl.environments.football",
    "gym": "seed_rl.environments.classic",
    "minatar": "seed_rl.environments.minatar",
    "recall": "seed_rl.environments.recall",
}

_ENTRY_POINTS = "seed_rl.environments"


def names() -> list[str]:
    """The valid names, sorted."""
    return sorted({*_MODULES, *_installed()})


def suite(name: str) -> Suite:
    """The suite of that name; only its own module is imported. Our own come before those of other packages.

    Raises:
      ValueError: there is no such suite (the sentence lists the valid names), or a package's is none.
    """
    if name not in _MODULES:
        if name in (installed := _installed()):
            return _load(installed[name])
        close = nearest(name, names(), count=1)
        hint = f" (nearest: {close[0]})" if close else ""
        raise ValueError(f"--environment={name} is not valid; choose one of: {', '.join(names())}{hint}.")
    return importlib.import_module(_MODULES[name]).SUITE


def _installed() -> dict[str, importlib.metadata.EntryPoint]:
    return {entry.name: entry for entry in importlib.metadata.entry_points(group=_ENTRY_POINTS)}


def _load(entry: importlib.metadata.EntryPoint) -> Suite:
    try:
        found = entry.load()
    except (ImportError, AttributeError) as error:
        raise ValueError(f"--environment={entry.name} ({entry.value}) cannot be loaded: {error}.") from error
    if not isinstance(found, Suite):
        raise ValueError(
            f"--environment={entry.name} is {entry.value}, which is no seed_rl.environments.base.Suite; its "
            "package must name one in its entry point."
        )
    return found
