from pathlib import Path

import pytest

from seed_rl.algorithms import registry as algorithms
from seed_rl.flags.flagfile import configs_directory, find_preset
from seed_rl.launch.plan import make_plan, resolve_run

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
    found = find_preset(configs, environment, agent, game)
    assert found == (expected and configs / f"{expected}.flags")


@pytest.mark.parametrize(
    "name",
    [
        str(path.relative_to(configs_directory()).with_suffix(""))
        for path in sorted(configs_directory().rglob("*.flags"))
    ],
)
def test_every_preset_is_valid(name):
    made = resolve_run(["train", f"--flagfile={configs_directory() / name}.flags"])
    words = [made.agent, *(word for word in algorithms.choices() if algorithms.base(word) == made.agent)]
    words += ["impala"] if made.values["inference"] == "actor" else []
    assert Path(name).name.startswith(tuple(f"{made.environment}_{word}" for word in words))
    assert make_plan(made, "unix:/tmp/x").actors
