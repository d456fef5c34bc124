"""Looks at the spaces of environments, in a process of its own: nothing that they start outlives that."""

import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from seed_rl.environments import registry as environments
from seed_rl.environments.base import EnvironmentConfig
from seed_rl.environments.making import suite_spec
from seed_rl.flags.errors import run_main, usage_errors
from seed_rl.launch.child import ACTOR_ENV, Child
from seed_rl.launch.defaults import Kind, kind_of
from seed_rl.learner.config import LearnerConfig

_POLL_SECS = 0.02


def kinds_of(environment: str, configs: Sequence[EnvironmentConfig]) -> list[Kind]:
    """The kind of a suite's environments with each of these settings; makes one of each.

    Raises:
      ValueError: one cannot be made; a sentence that says why.
    """
    settings = json.dumps([config.to_dict() for config in configs])
    command = [sys.executable, "-m", "seed_rl.launch.spaces", environment, settings]
    with tempfile.TemporaryDirectory(prefix="seed_rl_") as directory:
        child = Child("a look at the environment", command, Path(directory) / "output", ACTOR_ENV)
        try:
            child.start()
            while (code := child.poll()) is None:
                time.sleep(_POLL_SECS)
        finally:
            child.kill()
        line = child.last_line()
    if code != 0:
        raise ValueError(line.removeprefix("seed_rl: error: "))
    return [Kind(*kind) for kind in json.loads(line)]


def _main(argv: list[str]) -> None:
    """Prints the kinds as JSON."""
    with usage_errors():
        suite = environments.suite(argv[1])
        configs = [suite.config_class.of(**settings) for settings in json.loads(argv[2])]
        specs = [suite_spec(suite, config, LearnerConfig.seed) for config in configs]
    print(json.dumps([kind_of(spec) for spec in specs]))  # type: ignore[arg-type]


if __name__ == "__main__":
    run_main(_main)
