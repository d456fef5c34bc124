"""A group's environments before its first step is sent, and its episodes."""

import dataclasses
import sys

import numpy as np
import pytest

from seed_rl.actor.actor_config import ActorConfig
from seed_rl.actor.group import EnvironmentRefusedError, EpisodeStatistics, Group, chosen, make_environment
from seed_rl.environments import registry
from seed_rl.environments.base import EnvironmentConfig, Info, Suite
from seed_rl.environments.failures import FailureConfig
from seed_rl.environments.singles import SingleEnvironments
from seed_rl.environments.suites import catch
from seed_rl.metrics.episodes import FAILURES
from seed_rl.types import ArraySpec, EnvironmentSpec, EnvOutput
from seed_rl.wire.codec import StepCodec
from seed_rl.wire.generated import inference_pb2 as pb
from seed_rl.wire.protocol import EnvironmentDescription
from tests.actor.counting import DESCRIPTION, SPEC, SUITE, CountingConfig
from tests.environments.odd import LENGTH, Odd, raises
from tests.environments.scripted import Move, Together, Turns, batch_of

SEEDS = list(range(8))
CATCH = catch.CatchConfig(rows=100)


@pytest.fixture
def make():
    """Makes groups of eight environments of Catch: (group, views of its records)."""
    made = []

    def make_one(random_start_steps=0):
        group = Group(SingleEnvironments(catch.SUITE, CATCH, SEEDS), SEEDS, random_start_steps)
        made.append(group)
        steps = StepCodec(group.environment.spec)
        records = np.zeros(8 * steps.record_bytes, np.uint8)
        group.write_to(records)
        return group, steps.decode(records)

    yield make_one
    for group in made:
        group.environment.close()


def rows(output):
    """The row of the ball: how many agent steps an environment has taken in its episode."""
    return np.argmax(output.observation.max(axis=2), axis=1).tolist()


def test_environments_start_together_unless_their_start_is_random(make):
    for random_start_steps in (0, 50):
        _, output = make(random_start_steps)
        assert output.done.all() and not output.reward.any() and not output.truncated.any()
        assert len(set(rows(output))) > 3 if random_start_steps else rows(output) == [0] * 8
        assert max(rows(output)) <= random_start_steps


def test_a_step_is_written_where_the_group_was_told_last(make):
    group, first = make()
    second = StepCodec(group.environment.spec)
    records = np.full(8 * second.record_bytes, 255, np.uint8)
    group.write_to(records)
    assert rows(second.decode(records)) == [0] * 8
    group.step(np.ones(8, np.int32))
    assert (rows(first), rows(second.decode(records)), group.applied) == ([0] * 8, [1] * 8, 1)


def test_the_episode_of_a_random_start_is_not_reported(make):
    plain, decorrelated = (
        [episode for _ in range(2 * 99) for episode in group.step(np.ones(8, np.int32))]
        for group, _ in (make(), make(50))
    )
    assert (len(plain), len(decorrelated)) == (2 * 8, 8)
    assert {episode.agent_steps for episode in decorrelated} == {99}
    assert {episode.env for episode in decorrelated} == set(range(8))


def test_groups_must_have_equal_sizes():
    with pytest.raises(ValueError, match="cannot be split into --num_env_groups=3 equal groups"):
        ActorConfig(env_batch_size=8, num_env_groups=3)


GOES_ON, REAL_END = {Info.EPISODE_CONTINUES: True}, {Info.EPISODE_CONTINUES: False}
# Of one environment: (reward, how the step ends, infos), and the returns and lengths of reported episodes.
EPISODES = {
    "a truncated one counts once, and its reset is no agent step": (
        [(1, "", {}), (2, "truncated", {}), (0, "done", {}), (5, "done", {})],
        [(3, 2), (5, 1)],
    ),
    "raw rewards replace rewards": (
        [(1, "", {Info.RAW_REWARD: 7.5}), (1, "", {Info.RAW_REWARD: 0}), (1, "done", {})],
        [(8.5, 3)],
    ),
    "one that continues is reported at its real end": (
        [(1, "done", GOES_ON), (2, "truncated", GOES_ON), (0, "done", {}), (4, "done", REAL_END)],
        [(7, 3)],
    ),
    "float32 would lose ones above 2**24": (
        [(2**24, "", {}), (1, "", {}), (1, "done", {})],
        [(2**24 + 2, 3)],
    ),
}


def output(rewards, done, truncated):
    return EnvOutput(np.float32(rewards), np.array(done), np.array(truncated), np.zeros((len(rewards), 3)))


@pytest.mark.parametrize(("steps", "expected"), EPISODES.values(), ids=EPISODES)
def test_episodes_of_an_environment(steps, expected):
    statistics, found = EpisodeStatistics(1), []
    for reward, end, info in steps:
        found += statistics.update(output([reward], [end == "done"], [end == "truncated"]), [info])
    assert [(episode.episode_return, episode.agent_steps) for episode in found] == expected


def test_each_environment_counts_for_itself_and_has_the_own_figures_of_its_last_step():
    statistics, no = EpisodeStatistics(2), [False, False]
    infos = [{"is_success": True}, {"metrics": {"wins": 9}}]
    assert statistics.update(output([1, 10], no, no), infos) == []
    infos = [{"is_success": False}, {"metrics": {"wins": 9}}]
    assert statistics.update(output([2, 20], [True, False], no), infos) == [
        pb.Episode(env=0, episode_return=3.0, agent_steps=2, figures={"is_success": 0.0})
    ]
    infos = [{}, {"metrics": {"wins": 2}}]
    assert statistics.update(output([4, 40], [True, False], [False, True]), infos) == [
        pb.Episode(env=0, episode_return=4.0, agent_steps=1),
        pb.Episode(env=1, episode_return=70.0, agent_steps=3, figures={"wins": 2.0}),
    ]


def test_failures_are_reported_once_with_the_next_episode_that_ends():
    made = []

    def make(config, seed):
        """The first environment fails in agent step 3."""
        made.append(Odd(**({} if made else {"step": raises(OSError("no device"))})))
        return made[-1]

    suite, tolerance = Suite(EnvironmentConfig, make), FailureConfig()
    environment = SingleEnvironments(suite, EnvironmentConfig(), [0, 1], tolerance)
    group, reported = Group(environment, [0, 1]), []
    for _ in range(3 * LENGTH):
        reported += [dict(episode.figures) for episode in group.step(np.zeros(2, np.int32))]
    assert reported == [{FAILURES: 1}, *[{}] * (len(reported) - 1)] and len(reported) > 3
    assert environment.failures == 1


def welcome_of(suite="counting", spec=SPEC, **settings):
    welcome = pb.Welcome()
    EnvironmentDescription(suite, {**DESCRIPTION.settings, **settings}, spec).describe_into(welcome)
    return welcome


def of(welcome, **given):
    return chosen(welcome, given, lambda name: SUITE)


def test_the_learner_decides():
    assert of(welcome_of(level=7)) == (SUITE, CountingConfig(level=7))
    assert of(welcome_of(level=7), environment="counting", level=7)[1] == CountingConfig(level=7)
    assert of(welcome_of(code="own:Env"), environment="counting", code="own:Env")[1].code == "own:Env"


UNKNOWN = "does not know the learner's settings"
# What the learner describes, what the actor's flags are, and the sentence.
REFUSED = {
    "another level": ({}, {"level": 2}, "--level=2 contradicts the learner, which has 1; leave it out, or"),
    "another suite": ({}, {"environment": "atari"}, "=atari contradicts the learner, which has counting"),
    "another flag": ({}, {"environment": "counting", "lives": 3}, "--lives=3 contradicts the learner, which"),
    "code": ({"code": "evil:Env"}, {}, "--code=evil:Env names a module to import; give this"),
    "unknown": ({"depth": 3}, {}, f"{UNKNOWN} of counting .* install the same seed_rl on both"),
    "text": ({"level": "high"}, {}, f"cannot be made here|{UNKNOWN}"),
    "a list": ({"level": [1]}, {}, f"cannot be made here|{UNKNOWN}"),
    "too low": ({"level": 0}, {}, "What the learner plays cannot be made here: --level=0 is too low"),
    "no JSON": ({"text": "__import__('os')"}, {}, "are no JSON"),
    "no suite": ({"suite": "catsh"}, {}, "--environment=catsh is not valid; choose one of: atari"),
}


@pytest.mark.parametrize(("settings", "given", "sentence"), REFUSED.values(), ids=REFUSED)
def test_what_an_actor_cannot_play_is_refused(settings, given, sentence):
    settings = dict(settings)
    text, suite = settings.pop("text", None), settings.pop("suite", "counting")
    welcome = welcome_of(suite, **settings)
    if text:
        welcome.settings["level"] = text
    with pytest.raises(EnvironmentRefusedError, match=sentence):
        chosen(welcome, given, registry.suite if suite == "catsh" else lambda name: SUITE)


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "minatar", None)
    suite = registry.suite("minatar")
    with pytest.raises(EnvironmentRefusedError, match=r"^MinAtar is not .* pip install .*\[minatar\]"):
        make_environment((suite, suite.config_class()), welcome_of(), [0], FailureConfig(), 0)


def test_environments_with_other_arrays_are_refused_and_closed():
    closed = []

    def make(config, seed):
        env = SUITE.make(config, seed)
        env.close = lambda: closed.append(len(closed))
        return env

    suite = dataclasses.replace(SUITE, make=make)
    other = EnvironmentSpec(ArraySpec((2,), "int32"), SPEC.action)
    with pytest.raises(
        EnvironmentRefusedError, match=r"do not match the learner's \(observation: int32\[1\] here"
    ):
        make_environment((suite, CountingConfig()), welcome_of(spec=other), [0, 1], FailureConfig(), 0)
    assert closed == [0, 1]
    environment = make_environment((SUITE, CountingConfig()), welcome_of(), [0, 1], FailureConfig(), 0)
    assert environment.num_envs == 2
    environment.close()


def test_a_group_of_players_reports_what_the_games_say_and_no_episode_of_its_own():
    """Idle records would look like ends."""
    script = [Move({"a": 1, "b": 5}), Move({"b": 2}, terminated="ab")]
    group = Group(batch_of(Together(script), Turns([Move({"b": 3}, truncated="ab")])), SEEDS[:4])
    reported = [
        [(e.env, e.episode_return, e.agent_steps, dict(e.figures)) for e in step(group)] for _ in range(3)
    ]
    first, second = "return_of_player_0", "return_of_player_1"
    of_turns = [(2, 0.0, 1, {first: 0.0}), (3, 3.0, 0, {second: 3.0})]
    together = [(0, 1.0, 2, {"time": 2.0, first: 1.0}), (1, 7.0, 2, {"time": 2.0, second: 7.0})]
    assert reported == [of_turns, together, of_turns]


def step(group):
    return group.step(np.ones(group.environment.num_envs, np.int32))


def test_void_episodes_of_players_are_not_reported():
    def fails(env, result):
        raise OSError("no device")

    envs = Together([Move({})], replaced=fails), Together([Move({}, terminated="ab")])
    group = Group(batch_of(*envs, tolerance=FailureConfig(), size=2), SEEDS[:2])
    assert [len(step(group)) for _ in range(3)] == [0, 0, 2]
