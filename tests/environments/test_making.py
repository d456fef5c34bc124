"""Facts about environments, found by making one: the controls for a person who plays."""

import gymnasium
import pytest

from seed_rl.environments import registry
from seed_rl.environments.base import EnvironmentConfig, Suite
from seed_rl.environments.failures import FailureConfig
from seed_rl.environments.making import examine
from seed_rl.environments.suites.catch import Catch


class Controlled(Catch):
    """Catch with these controls."""

    def __init__(self, keys, names):
        super().__init__(10, 5, 0)
        self._keys, self._names = keys, names

    def get_keys_to_action(self):
        return self._keys

    def get_action_meanings(self):
        return self._names


@pytest.mark.parametrize(
    "keys, found",
    [
        ({"a": 0, "d": 2}, {"a": 0, "d": 2}),
        ({(ord("a"),): 0, (ord("d"), ord(" ")): 2}, {"a": 0, " d": 2}),
        ({ord("a"): 0, ("d", " "): 1, (): 2}, {"a": 0, " d": 1, "": 2}),
        (None, {}),
        ({"a": "left"}, {}),
    ],
)
def test_a_key_map_in_any_of_gymnasiums_forms_is_found(keys, found):
    suite = Suite(
        EnvironmentConfig, lambda config, seed: gymnasium.Wrapper(Controlled(keys, ["L", "N", "R"]))
    )
    probed = examine(suite, EnvironmentConfig(), 1, FailureConfig())
    assert dict(probed.keys) == found and probed.action_names == ("L", "N", "R")


def test_an_environment_without_controls_has_none():
    suite = registry.suite("catch")
    probed = examine(suite, suite.config_class(), 1, FailureConfig())
    assert (probed.keys, probed.action_names) == ((), ())


def test_ataris_keys_are_those_of_its_actions():
    pytest.importorskip("ale_py")
    suite = registry.suite("atari")
    for full in (True, False):
        probed = examine(suite, suite.config_class(game="Pong", full_action_space=full), 1, FailureConfig())
        names, keys = probed.action_names, dict(probed.keys)
        assert names[keys["d"]] == "RIGHT" and names[keys[" a"]] == "LEFTFIRE"
        assert sorted(keys.values()) == list(range(18 if full else 6))
