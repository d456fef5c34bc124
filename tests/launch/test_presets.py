import pytest

from seed_rl.launch import plan, presets

SMALL = (
    "atari_vtrace_pong_small",
    "atari_vtrace_breakout_small",
    "catch_vtrace_small",
    "gym_r2d2_cartpole_small",
)
OTHER = ("atari_r2d2", "maze_vtrace_a_small", "maze_vtrace_b_small")


@pytest.fixture
def configs(tmp_path):
    for name in (*SMALL, *OTHER):
        (tmp_path / f"{name}.flags").touch()
    return tmp_path


@pytest.mark.parametrize(
    ("environment", "agent", "game", "expected"),
    [
        ("catch", "vtrace", None, "catch_vtrace_small"),
        ("atari", "vtrace", None, "atari_vtrace_pong_small"),
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


def test_the_default_preset_is_there():
    directory = presets.configs_directory()
    assert (directory / f"{presets.DEFAULT_PRESET}.flags").is_file()


@pytest.mark.parametrize("name", [path.stem for path in sorted(presets.configs_directory().glob("*.flags"))])
def test_every_preset_is_valid(name):
    path = presets.configs_directory() / f"{name}.flags"
    args, _ = plan.complete_arguments([f"--flagfile={path}"])
    line = plan.parse_local(["local_main", *args], "")
    assert name.startswith(f"{line.environment}_{line.agent}")
    made = plan.make_plan(line, "unix:/tmp/x")
    assert made.actors
