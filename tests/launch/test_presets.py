import pytest

from seed_rl.actor.config import ActorConfig
from seed_rl.algorithms import registry as algorithms
from seed_rl.flags import command_line
from seed_rl.launch import plan, presets
from seed_rl.launch.config import LocalConfig
from seed_rl.learner.config import LearnerConfig

NAMES = (
    *("atari_vtrace_small", "atari_vtrace_breakout_small", "catch_vtrace_small", "gym_r2d2_cartpole_small"),
    *("atari_r2d2", "maze_vtrace_a_small", "maze_vtrace_b_small"),
)


@pytest.fixture
def configs(tmp_path):
    for name in NAMES:
        (tmp_path / f"{name}.flags").touch()
    return tmp_path


@pytest.mark.parametrize(
    ("environment", "agent", "game", "expected"),
    [
        ("catch", "vtrace", None, "catch_vtrace_small"),
        ("atari", "vtrace", None, "atari_vtrace_small"),
        ("atari", "vtrace", "Pong", "atari_vtrace_small"),
        ("atari", "vtrace", "Breakout", "atari_vtrace_breakout_small"),
        ("gym", "r2d2", "Acrobot-v1", "gym_r2d2_cartpole_small"),
        ("atari", "r2d2", None, None),
        ("maze", "vtrace", None, None),
        ("maze", "vtrace", "B", "maze_vtrace_b_small"),
        ("catch", "vtrace", "../x", "catch_vtrace_small"),
    ],
)
def test_the_nearest_preset_is_found(configs, environment, agent, game, expected):
    found = presets.find_preset(configs, environment, agent, game)
    assert (found and found.stem) == expected


def test_configs_are_found_inside_the_package_or_beside_it(monkeypatch, tmp_path):
    monkeypatch.setattr(presets.seed_rl, "__file__", str(tmp_path / "seed_rl" / "__init__.py"))
    assert presets.configs_directory() == tmp_path / "configs"
    assert presets.find_preset(presets.configs_directory(), "catch", "vtrace") is None
    (tmp_path / "seed_rl" / "configs").mkdir(parents=True)
    assert presets.configs_directory() == tmp_path / "seed_rl" / "configs"


@pytest.mark.parametrize("name", [path.stem for path in sorted(presets.configs_directory().glob("*.flags"))])
def test_every_preset_is_valid(name):
    line, made = resolved(name)
    words = [line.agent, *(word for word, agent in algorithms.VARIANTS.items() if agent == line.agent)]
    assert name.startswith(tuple(f"{line.environment}_{word}" for word in words))
    assert made.actors


def resolved(name):
    """The command line of a flagfile alone, and the plan of the local launcher for it."""
    args, _ = plan.complete_arguments([f"--flagfile={presets.configs_directory() / name}.flags"])
    line = plan.parse_local(["train", *args], "")
    return line, plan.make_plan(line, "unix:/tmp/x")


def launched_environments(made):
    """Environments of the actors that a plan starts, and of its learner."""
    batches = [flag for command in made.actors for flag in command if flag.startswith("--env_batch_size=")]
    (num_envs,) = (flag for flag in made.learners[0] if flag.startswith("--num_envs="))
    return sum(int(flag.partition("=")[2]) for flag in batches), int(num_envs.partition("=")[2])


@pytest.mark.parametrize(
    ("name", "num_envs"),
    [("atari_r2d2", 620), ("atari_vtrace", 256), ("dmlab_vtrace", 312), ("football_vtrace", 624)],
)
def test_cluster_presets_divide_their_environments_over_actors_with_two_groups(name, num_envs):
    line, made = resolved(name)
    assert launched_environments(made) == (num_envs, num_envs)
    # What `seed_rl learner` reads of the same file.
    parsed = command_line.parse(
        ["learner", f"--flagfile={presets.configs_directory() / name}.flags"],
        "",
        (LearnerConfig,),
        elsewhere=(ActorConfig, LocalConfig),
    )
    assert parsed.read(LearnerConfig).num_envs == num_envs
    actor = line.read(ActorConfig, server_address="")
    assert actor.num_env_groups == 2 and actor.env_batch_size % 2 == 0
