"""Environments that an actor makes from a learner's Welcome: names and JSON values, and never code."""

import dataclasses
import sys

import pytest

from seed_rl.actor.environments import EnvironmentRefusedError, chosen, make_environment
from seed_rl.environments import registry
from seed_rl.environments.failures import FailureConfig
from seed_rl.types import ArraySpec, EnvironmentSpec
from seed_rl.wire.generated import inference_pb2 as pb
from seed_rl.wire.protocol import EnvironmentDescription
from tests.actor.counting import DESCRIPTION, SPEC, SUITE, CountingConfig


def welcome_of(suite="counting", spec=SPEC, **settings):
    welcome = pb.Welcome()
    EnvironmentDescription(suite, {**DESCRIPTION.settings, **settings}, spec).describe_into(welcome)
    return welcome


def of(welcome, **given):
    return chosen(welcome, given, lambda name: SUITE)


def test_the_learner_decides():
    assert of(welcome_of(level=7)) == (SUITE, CountingConfig(level=7))
    assert of(welcome_of(level=7), environment="counting", level=7)[1] == CountingConfig(level=7)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            {"level": 2},
            "--level=2 contradicts the learner, which has 1; leave it out, or change the learner's.",
        ),
        ({"environment": "atari"}, "--environment=atari contradicts the learner, which has counting"),
        ({"environment": "counting", "lives": 3}, "--lives=3 contradicts the learner, which has None"),
    ],
)
def test_flags_that_contradict_the_learner_are_named(given, sentence):
    with pytest.raises(EnvironmentRefusedError) as caught:
        of(welcome_of(), **given)
    assert str(caught.value).startswith(sentence)


def test_code_that_only_the_learner_names_is_not_imported():
    with pytest.raises(EnvironmentRefusedError, match=r"--code=evil:Env names a module to import; give this"):
        of(welcome_of(code="evil:Env"))
    assert of(welcome_of(code="own:Env"), environment="counting", code="own:Env")[1].code == "own:Env"


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            {"depth": 3},
            "does not know the learner's settings of counting .* install the same seed_rl on both",
        ),
        ({"level": "high"}, "cannot be made here|does not know the learner's settings"),
        ({"level": [1]}, "cannot be made here|does not know the learner's settings"),
        ({"level": 0}, "What the learner plays cannot be made here: --level=0 is too low"),
    ],
)
def test_settings_that_are_none_here_are_refused(settings, sentence):
    with pytest.raises(EnvironmentRefusedError, match=sentence):
        of(welcome_of(**settings))


def test_settings_that_are_no_json_and_unknown_suites_are_refused():
    welcome = welcome_of()
    welcome.settings["level"] = "__import__('os')"
    with pytest.raises(EnvironmentRefusedError, match="are no JSON"):
        of(welcome)
    with pytest.raises(
        EnvironmentRefusedError, match="--environment=catsh is not valid; choose one of: atari"
    ):
        chosen(welcome_of("catsh"), {}, registry.suite)


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "minatar", None)
    suite = registry.suite("minatar")
    with pytest.raises(EnvironmentRefusedError, match=r"^MinAtar is not .* pip install .*\[minatar\]"):
        make_environment((suite, suite.config_class()), welcome_of(), [0], FailureConfig(), 0)


def test_environments_with_other_arrays_are_refused_and_closed():
    closed = []
    make = dataclasses.replace(SUITE, make=lambda config, seed: _closing(config, seed, closed))
    other = EnvironmentSpec(ArraySpec((2,), "int32"), SPEC.action)
    with pytest.raises(
        EnvironmentRefusedError, match=r"do not match the learner's \(observation: int32\[1\] here"
    ):
        make_environment((make, CountingConfig()), welcome_of(spec=other), [0, 1], FailureConfig(), 0)
    assert closed == [0, 1]
    environment = make_environment((SUITE, CountingConfig()), welcome_of(), [0, 1], FailureConfig(), 0)
    assert environment.num_envs == 2
    environment.close()


def _closing(config, seed, closed):
    env = SUITE.make(config, seed)
    env.close = lambda: closed.append(len(closed))
    return env
