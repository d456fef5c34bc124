from pathlib import Path

import pytest

from seed_rl.actor.config import ActorConfig
from seed_rl.algorithms import registry as algorithms
from seed_rl.flags import command_line
from seed_rl.flags.configs import configs_directory
from seed_rl.launch import plan, presets
from seed_rl.launch.config import LocalConfig
from seed_rl.learner.config import LearnerConfig

NAMES = (
    *("small/atari_vtrace", "small/atari_vtrace_breakout", "small/catch_vtrace", "small/gym_r2d2_cartpole"),
    *("paper/seed/atari_r2d2", "small/maze_vtrace_a", "small/maze_vtrace_b"),
)


@pytest.fixture
def configs(tmp_path):
    for name in NAMES:
        path = tmp_path / f"{name}.flags"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return tmp_path


@pytest.mark.parametrize(
    ("environment", "agent", "game", "expected"),
    [
        ("catch", "vtrace", None, "small/catch_vtrace"),
        ("atari", "vtrace", None, "small/atari_vtrace"),
        ("atari", "vtrace", "Pong", "small/atari_vtrace"),
        ("atari", "vtrace", "Breakout", "small/atari_vtrace_breakout"),
        ("gym", "r2d2", "Acrobot-v1", "small/gym_r2d2_cartpole"),
        ("atari", "r2d2", None, None),
        ("maze", "vtrace", None, None),
        ("maze", "vtrace", "B", "small/maze_vtrace_b"),
        ("catch", "vtrace", "../x", "small/catch_vtrace"),
    ],
)
def test_the_nearest_preset_is_found(configs, environment, agent, game, expected):
    found = presets.find_preset(configs, environment, agent, game)
    assert found == (expected and configs / f"{expected}.flags")


@pytest.mark.parametrize(
    "name",
    [
        str(path.relative_to(configs_directory()).with_suffix(""))
        for path in sorted(configs_directory().rglob("*.flags"))
    ],
)
def test_every_preset_is_valid(name):
    line, made = resolved(name)
    words = [line.agent, *(word for word, agent in algorithms.VARIANTS.items() if agent == line.agent)]
    assert Path(name).name.startswith(tuple(f"{line.environment}_{word}" for word in words))
    assert made.actors


def resolved(name):
    """The command line of a flagfile alone, and the plan of the local launcher for it."""
    args, _ = plan.complete_arguments([f"--flagfile={configs_directory() / name}.flags"])
    line = plan.parse_local(["train", *args], "")
    return line, plan.make_plan(line, "unix:/tmp/x")


def launched_environments(made):
    """Environments of the actors that a plan starts, and of its learner."""
    batches = [flag for command in made.actors for flag in command if flag.startswith("--env_batch_size=")]
    (num_envs,) = (flag for flag in made.learners[0] if flag.startswith("--num_envs="))
    return sum(int(flag.partition("=")[2]) for flag in batches), int(num_envs.partition("=")[2])


@pytest.mark.parametrize(
    ("name", "num_envs"),
    [
        ("paper/seed/atari_r2d2", 620),
        ("paper/seed/atari_vtrace", 256),
        ("paper/seed/dmlab_vtrace_2_cores", 312),
        ("paper/seed/football_vtrace_2_cores", 624),
    ],
)
def test_cluster_presets_divide_their_environments_over_actors_with_two_groups(name, num_envs):
    line, made = resolved(name)
    assert launched_environments(made) == (num_envs, num_envs)
    # What `seed_rl learner` reads of the same file.
    parsed = command_line.parse(
        ["learner", f"--flagfile={configs_directory() / name}.flags"],
        "",
        (LearnerConfig,),
        elsewhere=(ActorConfig, LocalConfig),
    )
    assert parsed.read(LearnerConfig).num_envs == num_envs
    actor = line.read(ActorConfig, server_address="")
    assert actor.num_env_groups == 2 and actor.env_batch_size % 2 == 0
