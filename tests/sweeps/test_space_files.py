"""The spaces in configs/sweeps: as in the paper's tables, and of flags that exist."""

import pytest

from seed_rl.algorithms.registry import config_class
from seed_rl.environments.base import EnvironmentConfig
from seed_rl.flags.definitions import option_names
from seed_rl.flags.errors import UsageError
from seed_rl.launch.config import LocalConfig
from seed_rl.launch.plan import complete_arguments, parse_local
from seed_rl.launch.presets import configs_directory
from seed_rl.learner.config import LearnerConfig
from seed_rl.sweeps.space import Distribution, read_space
from seed_rl.sweeps.trials import make_sweep

DIRECTORY = configs_directory() / "sweeps"

DISCOUNTS = Distribution("choice", (0.99, 0.993, 0.997, 0.999))
LAMBDAS = Distribution("choice", (0.9, 0.95, 0.99, 1.0))

# By space: environment, flagfile, fixed flags, distributions.
TABLES = {
    "dmlab_stability": (
        "dmlab",
        "dmlab_vtrace.flags",
        {"num_action_repeats": 4, "optimizer": "adam", "unroll_length": 32, "baseline_cost": 0.5},
        {
            "discounting": DISCOUNTS,
            "entropy_cost": Distribution("log_uniform", (1e-5, 1e-3)),
            "learning_rate": Distribution("log_uniform", (1e-4, 1e-3)),
            "adam_epsilon": Distribution("choice", (1e-1, 1e-3, 1e-5, 1e-7)),
            "lambda_": LAMBDAS,
        },
    ),
    "football": (
        "football",
        "football_vtrace.flags",
        {"num_action_repeats": 1, "optimizer": "adam", "unroll_length": 32, "baseline_cost": 0.5},
        {
            "discounting": DISCOUNTS,
            "entropy_cost": Distribution("log_uniform", (1e-7, 1e-3)),
            "learning_rate": Distribution("log_uniform", (1e-5, 1e-3)),
            "lambda_": LAMBDAS,
        },
    ),
}


@pytest.mark.parametrize("name", TABLES)
def test_the_papers_spaces_are_as_in_its_tables(name):
    environment, flagfile, flags, parameters = TABLES[name]
    space = read_space(DIRECTORY / f"{name}.yaml")
    assert (space.environment, space.agent, space.flagfile) == (
        environment,
        "vtrace",
        (DIRECTORY.parent / flagfile).resolve(),
    )
    assert space.flags == flags
    assert space.parameters == parameters


@pytest.mark.parametrize("path", sorted(DIRECTORY.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_flag_is_one_of_the_learner_the_agent_or_any_environment(path):
    space = read_space(path)
    names = {*space.flags, *space.parameters}
    assert names <= option_names(LearnerConfig, config_class(space.agent), EnvironmentConfig)


# By space: what every run of it trains, where it is not drawn. The engines of both suites may be missing.
RUNS = {
    "catch": ("catch", {"rows": 10}, {"torso": "auto", "lstm_size": 0}, 40_000, 32, 8),
    "catch_dqn": ("catch", {"rows": 10}, {"torso": "auto", "lstm_size": 0, "double": True}, 40_000, 32, 8),
    "catch_a2c": ("catch", {"rows": 10}, {"lstm_size": 0, "unroll_length": 10}, 40_000, 32, 8),
    "catch_appo": ("catch", {"rows": 10}, {"lstm_size": 0, "unroll_length": 20}, 40_000, 32, 8),
    "catch_ppo": ("catch", {"rows": 10}, {"lstm_size": 0, "unroll_length": 32}, 40_000, 32, 8),
    "catch_pqn": ("catch", {"rows": 10}, {"layer_norm": True, "unroll_length": 16}, 40_000, 32, 8),
    "catch_sac": ("catch", {"rows": 10}, {"mlp_sizes": "64,64", "frame_stack": 1}, 40_000, 20, 8),
    "dmlab_stability": (
        "dmlab",
        {"game": "explore_goal_locations_small", "num_action_repeats": 4},
        {"torso": "resnet", "lstm_size": 256, "frame_stack": 1, "unroll_length": 32},
        10**9,
        312,
        24,
    ),
    "football": (
        "football",
        {"game": "11_vs_11_hard_stochastic", "map_size": "96x72", "rewards": "scoring"},
        {"torso": "football", "lstm_size": 0, "frame_stack": 4, "unroll_length": 32},
        500 * 10**6,
        624,
        40,
    ),
}


@pytest.mark.parametrize("path", sorted(DIRECTORY.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_run_is_of_the_intended_environment_network_and_frames(path, tmp_path):
    environment, settings, network, frames, num_envs, trials = RUNS[path.stem]
    space = read_space(path)
    sweep = make_sweep(space, tmp_path / "new", trials, 1, 1)
    assert (sweep.preset, sweep.flagfiles) == (None, [space.flagfile])
    assert {run.total_frames for run in sweep.runs} == {frames}
    for run in sweep.runs:
        # As the launcher reads the command.
        args, preset = complete_arguments(run.command[3:])
        line = parse_local(["seed_rl.local_main", *args], "")
        assert (line.environment, line.agent, preset) == (environment, space.agent, None)
        agent, local = line.agent_config(), line.read(LocalConfig)
        learner = line.read(LearnerConfig, num_envs=num_envs, logdir="", server_address="")
        assert learner.total_environment_frames == frames
        assert local.num_actors * local.env_batch_size == num_envs
        for config, expected in ((line.environment_config(), settings), (agent, network)):
            found = config.to_dict()
            assert {name: found[name] for name in expected} == expected
        everything = {**agent.to_dict(), **learner.to_dict(), **line.environment_config().to_dict()}
        drawn = sweep.values(run.trial) | space.flags
        assert {name: everything[name] for name in drawn} == drawn


def test_a_suite_that_does_not_exist_is_named(tmp_path):
    space = read_space(DIRECTORY / "football.yaml")
    with pytest.raises(UsageError, match=r"--environment=socker is not valid; choose one of: "):
        make_sweep(space, tmp_path / "new", 1, 1, 1, ["--environment=socker"])


def test_the_small_space_is_of_the_small_preset(tmp_path):
    space = read_space(DIRECTORY / "catch.yaml")
    assert space.flagfile == configs_directory().resolve() / "catch_vtrace_small.flags"
    sweep = make_sweep(space, tmp_path / "new", 8, 2, 1)
    assert {run.total_frames for run in sweep.runs} == {40000}
