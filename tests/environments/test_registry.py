"""The table of suites."""

import subprocess
import sys
import types

import pytest

from seed_rl.environments import registry
from seed_rl.environments.base import EnvironmentConfig, Suite
from tests.installed import install


def test_unknown_name_lists_the_valid_ones_and_the_nearest():
    with pytest.raises(
        ValueError, match=r"^--environment=Attari .*atari, catch, .*gym, .*recall.*\(nearest: atari\)\.$"
    ):
        registry.suite("Attari")
    with pytest.raises(ValueError, match=r"recall\.$"):
        registry.suite("xyzzy")


def test_suites_import_without_engines_and_without_tensorflow():
    """Flags can be defined anywhere, and actors stay thin."""
    program = """
import sys
import types
for engine in ("ale_py", "cv2", "deepmind_lab", "gfootball", "gym", "minatar", "shimmy"):
    sys.modules[engine] = None
from seed_rl.environments import batched, registry
from seed_rl.actor import group
for name in registry.names():
    registry.suite(name).config_class()
assert "tensorflow" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_an_installed_package_adds_a_suite(tmp_path, monkeypatch):
    module = types.ModuleType("their_suite")
    module.SUITE = Suite(EnvironmentConfig, lambda config, seed, render_mode=None: None)
    monkeypatch.setitem(sys.modules, "their_suite", module)
    points = {"pong2000": "their_suite:SUITE", "catch": "their_suite:SUITE", "theirs": "their_suite:__name__"}
    install(tmp_path, monkeypatch, "seed_rl.environments", **points)
    assert "pong2000" in registry.names()
    assert registry.suite("pong2000") is module.SUITE
    assert registry.suite("catch") is not module.SUITE  # Ours comes first.
    with pytest.raises(ValueError, match=r"^--environment=theirs .* is not a seed_rl\.environments\.base\.S"):
        registry.suite("theirs")


@pytest.mark.parametrize(
    ("suite", "module", "remedy"),
    [
        ("atari", "ale_py", r"-m pip install .*\[atari\]'"),
        ("minatar", "minatar", r"-m pip install .*\[minatar\]'"),
        ("football", "gfootball", r"run tools/install_football\.sh"),
        ("dmlab", "deepmind_lab", r"docs/dmlab\.md says how"),
    ],
)
def test_a_suite_that_is_not_installed_says_what_installs_it(monkeypatch, suite, module, remedy):
    for name in [name for name in sys.modules if name.partition(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    found = registry.suite(suite)
    with pytest.raises(ImportError, match=remedy):
        found.make(found.config_class(**({"engine": module} if suite == "football" else {})), 0)
