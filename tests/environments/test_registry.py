"""The table of suites."""

import subprocess
import sys

import pytest

from seed_rl.environments import registry
from seed_rl.environments.base import EnvironmentConfig, Suite


@pytest.mark.parametrize("name", registry.names())
def test_every_suite_has_defaults(name):
    suite = registry.suite(name)
    assert isinstance(suite, Suite)
    assert isinstance(suite.config_class(), EnvironmentConfig)


def test_names():
    assert {"atari", "catch", "gym"} <= set(registry.names())
    assert registry.names() == sorted(registry.names())


def test_unknown_name_lists_the_valid_ones_and_the_nearest():
    with pytest.raises(
        ValueError, match=r"^--environment=Attari .*atari, catch, gym, recall.*\(nearest: atari\)\.$"
    ):
        registry.suite("Attari")
    with pytest.raises(ValueError, match=r"recall\.$"):
        registry.suite("xyzzy")


def test_suites_import_without_engines_and_without_tensorflow():
    """Flags can be defined anywhere, and actors stay thin."""
    program = """
import sys
for engine in ("ale_py", "cv2"):
    sys.modules[engine] = None
from seed_rl.environments import batched, registry
from seed_rl.actor import statistics
for name in registry.names():
    registry.suite(name).config_class()
assert "tensorflow" not in sys.modules
try:
    suite = registry.suite("atari")
    suite.make(suite.config_class(), 0)
except ImportError as error:
    print(error)
"""
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert "pip install seed_rl[atari]" in result.stdout
    assert result.stdout.count("\n") == 1
