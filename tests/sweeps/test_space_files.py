"""The spaces in configs/sweeps: as in the paper's tables, and of flags that exist."""

import pytest

from seed_rl.agents.vtrace_config import VTraceConfig
from seed_rl.environments.base import EnvironmentConfig
from seed_rl.flags.definitions import option_names
from seed_rl.flags.errors import UsageError
from seed_rl.launch.presets import configs_directory
from seed_rl.learner.config import LearnerConfig
from seed_rl.sweeps.space import Distribution, read_space
from seed_rl.sweeps.trials import make_sweep

DIRECTORY = configs_directory() / "sweeps"

DISCOUNTS = Distribution("choice", (0.99, 0.993, 0.997, 0.999))
LAMBDAS = Distribution("choice", (0.9, 0.95, 0.99, 1.0))

TABLES = {
    "dmlab_stability": (
        "dmlab",
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
    environment, flags, parameters = TABLES[name]
    space = read_space(DIRECTORY / f"{name}.yaml")
    assert (space.environment, space.agent, space.flagfile) == (environment, "vtrace", None)
    assert space.flags == flags
    assert space.parameters == parameters


@pytest.mark.parametrize("path", sorted(DIRECTORY.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_flag_is_one_of_the_learner_the_agent_or_any_environment(path):
    space = read_space(path)
    names = {*space.flags, *space.parameters}
    assert names <= option_names(LearnerConfig, VTraceConfig, EnvironmentConfig)


@pytest.mark.parametrize("name", TABLES)
def test_their_values_are_valid_ones(name, tmp_path):
    space = read_space(DIRECTORY / f"{name}.yaml")
    sweep = make_sweep(space, tmp_path / "new", 40, 1, 1, ["--environment=catch"])
    assert len(sweep.runs) == 40


def test_a_suite_that_does_not_exist_is_named(tmp_path):
    space = read_space(DIRECTORY / "football.yaml")
    with pytest.raises(UsageError, match=r"--environment=socker is not valid; choose one of: "):
        make_sweep(space, tmp_path / "new", 1, 1, 1, ["--environment=socker"])


def test_the_small_space_is_of_the_small_preset(tmp_path):
    space = read_space(DIRECTORY / "catch.yaml")
    assert space.flagfile == configs_directory().resolve() / "catch_vtrace_small.flags"
    sweep = make_sweep(space, tmp_path / "new", 8, 2, 1)
    assert {run.total_frames for run in sweep.runs} == {40000}
