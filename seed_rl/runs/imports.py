"""Check of the code that a run's record names, which may be untrusted."""

import importlib.metadata
import importlib.util
import os
from pathlib import Path

from seed_rl.algorithms import registry as algorithms
from seed_rl.environments import registry as environments
from seed_rl.runs.layout import RunDirectory
from seed_rl.runs.record import RunRecord
from seed_rl.runs.signature import is_signed


def check_imports(run: RunRecord, trust_code: bool) -> None:
    """Refuses to import what only the record names: no installed package has it, and PYTHONPATH neither.

    A run that this user trained, in the same place, is trusted.

    Raises:
      ValueError: the record names such a module, and the user does not `trust_code`; one sentence.
    """
    if trust_code or is_signed(run.logdir):
        return
    of_environment = environments.suite(run.environment).config_class, run.environment_settings
    of_agent = algorithms.config_class(run.agent), run.agent_settings
    named = [
        f"--{leaf.name}={settings[leaf.name]}"
        for config_class, settings in (of_environment, of_agent)
        for leaf in config_class.leaves()
        if leaf.metadata.get("is_code") and not _is_known(str(settings.get(leaf.name)))
    ]
    if named:
        file = RunDirectory(run.logdir).record
        raise ValueError(
            f"{file} names code that is neither part of an installed package nor on PYTHONPATH "
            f"({', '.join(named)}); if you trust it, add --trust_code to import it."
        )


def _is_known(name: str) -> bool:
    """Whether `module:NAME` is of an installed package or on PYTHONPATH; also true without a module."""
    module = name.rpartition(":")[0]
    package = module.partition(".")[0]
    return (
        not module
        or package in ("seed_rl", *importlib.metadata.packages_distributions())
        or _is_on_pythonpath(package)
    )


def _is_on_pythonpath(package: str) -> bool:
    """Whether a module would be imported from a directory that the user has put on PYTHONPATH."""
    try:
        found = importlib.util.find_spec(package) if package.isidentifier() else None
    except (ImportError, ValueError):
        return False
    if found is None:
        return False
    # The origin of a module that is built in is a word, and no path.
    places = found.submodule_search_locations or ([str(found.origin)] if found.has_location else [])
    named = [Path(path).resolve() for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    return bool(places) and all(Path(place).resolve().parent in named for place in places)
