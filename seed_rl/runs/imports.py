"""What code a run's record names, which may come from somebody else."""

import importlib.metadata

from seed_rl.algorithms import registry as algorithms
from seed_rl.environments import registry as environments
from seed_rl.runs.layout import RunDirectory
from seed_rl.runs.record import RunRecord


def check_imports(run: RunRecord, trust_code: bool) -> None:
    """Refuses to import what only the record names: modules that are not part of an installed package.

    Args:
      run: the run.
      trust_code: whether the user has said that they may be imported.

    Raises:
      ValueError: the record names such a module, and the user has not; one sentence.
    """
    of_environment = environments.suite(run.environment).config_class, run.environment_settings
    of_agent = algorithms.config_class(run.agent), run.agent_settings
    named = [
        f"--{leaf.name}={settings[leaf.name]}"
        for config_class, settings in (of_environment, of_agent)
        for leaf in config_class.leaves()
        if leaf.metadata.get("is_code") and not _is_installed(str(settings.get(leaf.name)))
    ]
    if named and not trust_code:
        file = RunDirectory(run.logdir).record
        raise ValueError(
            f"{file} names code that is not part of an installed package ({', '.join(named)}); if you trust "
            "it, add --trust_code to import it."
        )


def _is_installed(name: str) -> bool:
    """Whether `module:NAME` is of an installed package; also true without a module."""
    module = name.rpartition(":")[0]
    return not module or module.partition(".")[0] in (
        "seed_rl",
        *importlib.metadata.packages_distributions(),
    )
