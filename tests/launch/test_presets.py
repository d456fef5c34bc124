import pytest

from seed_rl.launch import plan, presets
from seed_rl.launch.config import LocalConfig
from seed_rl.learner.config import LearnerConfig

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


def test_the_paper_preset_of_r2d2_is_tables_8_and_9():
    path = presets.configs_directory() / "atari_r2d2.flags"
    args, _ = plan.complete_arguments([f"--flagfile={path}"])
    line = plan.parse_local(["local_main", *args], "")
    agent, environment = line.agent_config(), line.environment_config()
    learner = line.read(LearnerConfig, num_envs=610, server_address="", logdir="")
    table_8 = {
        "replay_ratio": 0.75,
        "burn_in": 40,
        "replay_buffer_size": 10**5,
        "replay_buffer_min_size": 5000,
        "priority_exponent": 0.9,
        "importance_sampling_exponent": 0.6,
        "discounting": 0.997,
        "update_target_every_n_step": 2500,
        "value_function_rescaling_epsilon": 1e-3,
        "n_steps": 5,
        "eval_epsilon": 1e-3,
        "eta": 0.9,
        "max_abs_reward": 0,
        "frame_stack": 4,
        "lstm_size": 512,
        "head_size": 512,
        "torso": "nature",
        "initializer": "glorot_uniform",
        "start_at_zero": False,
    }
    optimizer = {
        "batch_size": 64,
        "inference_batch_size": 64,
        "optimizer": "adam",
        "learning_rate": 1e-4,
        "learning_rate_schedule": "constant",
        "adam_epsilon": 1e-3,
        "clip_norm": 80,
    }
    table_9 = {
        "screen_size": 84,
        "max_random_noops": 30,
        "num_action_repeats": 4,
        "terminal_on_life_loss": False,
        "max_episode_frames": 108_000,
        "full_action_space": True,
        "sticky_action_probability": 0,
    }
    for config, table in ((agent, table_8), (learner, optimizer), (environment, table_9)):
        assert {name: getattr(config, name) for name in table} == table
    assert agent.burn_in + agent.unroll_length == 120
    assert line.read(LocalConfig).num_actors == 610
