from pathlib import Path

import numpy as np
import pytest
from gymnasium import spaces

from seed_rl.algorithms import registry as algorithms
from seed_rl.algorithms.options import kind_of
from seed_rl.environments import registry as environments
from seed_rl.environments.actions import action_spec
from seed_rl.environments.observations import observation_spec
from seed_rl.flags import defaults
from seed_rl.flags.errors import UsageError
from seed_rl.flags.resolve import Launching
from seed_rl.launch.plan import make_plan, resolve_run
from seed_rl.learner.learner_config import LearnerConfig
from seed_rl.types import EnvironmentSpec

IMAGE = spaces.Box(0, 255, (84, 84, 3), np.uint8)
BOARD = spaces.Box(0, 1, (10, 10, 4), np.bool_)
VECTOR = spaces.Box(-np.inf, np.inf, (5,))
DISCRETE = spaces.Discrete(3)
AGENTS = algorithms.choices()
NO_PRESETS = Path("/nonexistent")


def kind(observation, action=DISCRETE, repeats=1):
    spec = EnvironmentSpec(observation_spec(observation), action_spec(action), repeats)
    return kind_of(spec)


@pytest.mark.parametrize(
    ("observation", "expected", "stacks"),
    [
        (IMAGE, "images", True),
        (spaces.Box(0, 255, (84, 84), np.uint8), "images", True),
        (spaces.Box(0, 255, (4, 84, 84), np.uint8), "images", False),  # Stacked already.
        (spaces.Box(0, 1, (72, 96, 4), np.bool_), "images", True),
        (spaces.Box(0.0, 1.0, (84, 84, 3)), "images", False),
        (spaces.Dict(a=IMAGE, b=VECTOR), "images", True),
        (BOARD, "boards", False),
        (spaces.Dict(a=BOARD, b=VECTOR), "boards", False),
        (spaces.Box(0, 255, (2, 2, 3), np.uint8), "vectors", False),
        (VECTOR, "vectors", False),
        (spaces.Discrete(9), "vectors", False),
        (spaces.Box(0.0, 1.0, (10, 5)), "vectors", False),
    ],
)
def test_the_kind_of_observations(observation, expected, stacks):
    found = kind(observation)
    assert (found.observation, found.stacks) == (expected, stacks)


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (spaces.Discrete(3), "discrete"),
        (spaces.Box(-1, 1, (2,)), "continuous"),
        (spaces.MultiDiscrete([2, 3]), "several discrete"),
    ],
)
@pytest.mark.parametrize("agent", algorithms.names())
def test_an_agent_is_refused_where_its_algorithm_cannot_act(action, expected, agent):
    found = kind(VECTOR, action)
    assert found.action == expected
    config = algorithms.config_class(agent)()
    needed = config.refusal(expected)
    spec = EnvironmentSpec(observation_spec(VECTOR), action_spec(action), 1)
    if not needed:
        assert algorithms.make(agent, config, spec, num_envs=8)
        return
    with pytest.raises(ValueError, match=f" needs {needed}, but the environment's is "):
        algorithms.make(agent, config, spec, num_envs=8)


@pytest.mark.parametrize("observation", [IMAGE, BOARD, VECTOR], ids=["images", "boards", "vectors"])
@pytest.mark.parametrize("action", [DISCRETE, spaces.Box(-1, 1, (2,))], ids=["discrete", "continuous"])
@pytest.mark.parametrize("agent", AGENTS)
def test_every_agent_has_valid_defaults_for_what_it_can_play(observation, action, agent):
    found = kind(observation, action, repeats=4)
    values = defaults.of_agent(agent, found)
    settings = resolve_run(["train", "catch", agent]).replaced("space", **values)
    assert make_plan(settings, "unix:/tmp/x").actors
    config = settings.read(LearnerConfig)
    assert 1_000_000 <= config.total_environment_frames <= 12_000_000


def test_replay_of_large_observations_is_smaller_and_a_network_of_ones_own_goes_without_torsos():
    def size(observation):
        return defaults.of_agent("dqn", kind(observation))["replay_buffer_size"]

    assert size(spaces.Box(0, 255, (500, 500, 3), np.uint8)) * 750_000 <= 10**9 < size(VECTOR) * 750_000
    values = defaults.of_agent("ppo", kind(BOARD), has_network=True)
    assert not {"torso", "normalize_observations"} & values.keys()


def resolved(*args, configs=None):
    notes = []
    settings = resolve_run(["train", *args], launching=Launching(notes.append, configs=configs))
    make_plan(settings, "unix:/tmp/x")
    return settings, notes


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("name", environments.names())
def test_no_pair_starts_a_run_of_a_billion_frames(name, agent):
    """Each is resolved as the launcher does it, or names what is to be installed or given."""
    try:
        settings, notes = resolved(name, agent)
    except UsageError as error:
        missing = {"dmlab": "nstall", "football": "nstall", "external": "--spaces"}
        assert missing[name] in str(error)
        return
    assert settings.is_chosen("total_environment_frames")
    assert settings.values["total_environment_frames"] <= 10_000_000
    assert settings.preset or notes[0].startswith(f"no preset for {name} {agent}: defaults for")
    assert settings.agent_config()


@pytest.mark.parametrize(
    ("configs", "args", "values"),
    [
        (NO_PRESETS, ["catch", "dqn"], {"batch_size": 64, "num_eval_envs": 2}),
        (NO_PRESETS, ["catch", "dqn", "1", "4"], {"env_batch_size": 4, "num_eval_envs": 0}),
        (NO_PRESETS, ["catch", "dqn", "--batch_size=7"], {"batch_size": 7}),
        (NO_PRESETS, ["catch", "ppo", "3", "5"], {"batch_size": 3}),
        (NO_PRESETS, ["catch", "a2c", "3", "5"], {"batch_size": 15}),
        (NO_PRESETS, ["catch", "ppo", "1", "37"], {"batch_size": 1}),
        (NO_PRESETS, ["catch", "pqn", "6", "3", "--num_learners=2"], {"batch_size": 2}),
        (NO_PRESETS, ["catch", "vtrace", "1", "3"], {"num_env_groups": 1}),
        (NO_PRESETS, ["catch", "rainbow"], {"exploration": "noisy", "logdir": "runs/catch_rainbow"}),
        (None, ["catch", "ppo", "1", "6"], {"batch_size": 6}),
        (None, ["catch", "ppo"], {"batch_size": 8}),
        (None, ["catch", "a2c", "1", "6"], {"batch_size": 6}),
        (None, ["catch", "dqn", "1", "2"], {"num_eval_envs": 1}),
        (None, ["gym", "vtrace", "2", "5"], {"num_env_groups": 1}),
        (None, ["catch", "a2c", "1", "6", "--batch_size=4"], {"batch_size": 4}),
    ],
)
def test_defaults_and_presets_fit_the_number_of_environments_that_was_given(configs, args, values):
    settings, _ = resolved(*args, configs=configs)
    assert {name: settings.values[name] for name in values} == values


@pytest.mark.parametrize("game", ["CartPole-v1", "Acrobot-v1", "Pendulum-v1"])
def test_a_preset_is_only_for_games_of_its_kind(game):
    settings, notes = resolved("gym", "ppo", f"--game={game}")
    has_preset = game != "Pendulum-v1"
    assert (settings.preset is not None, notes == []) == (has_preset, has_preset)


def test_an_agent_that_cannot_act_is_refused_with_those_that_can():
    words = r"--agent=dqn needs one discrete action.*one of: a2c, appo, ppo, sac"
    with pytest.raises(UsageError, match=words):
        resolved("gym", "dqn", "--game=Pendulum-v1")
