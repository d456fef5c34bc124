import pytest

from seed_rl.actor.config import ActorConfig
from seed_rl.flags import command_line
from seed_rl.flags.definitions import option_names
from seed_rl.launch import plan, presets
from seed_rl.launch.config import LocalConfig
from seed_rl.learner.config import LearnerConfig
from seed_rl.training.config import TrainerConfig

SMALL = (
    "atari_vtrace_small",
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


def test_all_games_of_atari_share_a_preset():
    for game in (None, "Pong", "Breakout", "SpaceInvaders"):
        found = presets.find_preset(presets.configs_directory(), "atari", "vtrace", game)
        assert found and found.stem == "atari_vtrace_small"


@pytest.mark.parametrize("name", [path.stem for path in sorted(presets.configs_directory().glob("*.flags"))])
def test_every_preset_is_valid(name):
    path = presets.configs_directory() / f"{name}.flags"
    args, _ = plan.complete_arguments([f"--flagfile={path}"])
    line = plan.parse_local(["local_main", *args], "")
    words = [line.agent, *(word for word, agent in presets.VARIANTS.items() if agent == line.agent)]
    assert name.startswith(tuple(f"{line.environment}_{word}" for word in words))
    made = plan.make_plan(line, "unix:/tmp/x")
    assert made.actors


def resolved(name):
    """The command line of a flagfile alone, and the plan of the local launcher for it."""
    args, _ = plan.complete_arguments([f"--flagfile={presets.configs_directory() / name}.flags"])
    line = plan.parse_local(["local_main", *args], "")
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
    # What learner_main reads of the same file.
    parsed = command_line.parse(
        ["learner_main", f"--flagfile={presets.configs_directory() / name}.flags"],
        "",
        (LearnerConfig,),
        elsewhere=(ActorConfig, LocalConfig),
    )
    assert parsed.read(LearnerConfig).num_envs == num_envs
    actor = line.read(ActorConfig, server_address="", task="0")
    assert actor.num_env_groups == 2 and actor.env_batch_size % 2 == 0


@pytest.mark.parametrize("name", ["atari_r2d2", "dmlab_vtrace", "football_vtrace"])
def test_the_papers_presets_leave_no_setting_of_training_to_a_default(name):
    line, _ = resolved(name)
    not_theirs = {
        "rmsprop_decay",
        "rmsprop_epsilon",
        "log_layer_norms",
        "learning_rate_scaling",
        "learning_rate_batch_size",
    }
    names = option_names(TrainerConfig) - not_theirs
    assert [name for name in sorted(names) if not line.flag_values[name].present] == []
    assert line.flag_values["max_abs_reward"].present


TABLES_6_AND_7 = {
    "dmlab_vtrace": (
        {"num_action_repeats": 4, "width": 96, "height": 72},
        {"unroll_length": 32, "baseline_cost": 0.5, "torso": "resnet", "lstm_size": 256, "frame_stack": 1},
        {"batch_size": 32},
    ),
    "football_vtrace": (
        {"num_action_repeats": 1, "game": "11_vs_11_hard_stochastic", "map_size": "96x72"},
        {"unroll_length": 32, "baseline_cost": 0.5, "torso": "football", "lstm_size": 0, "frame_stack": 4},
        {"batch_size": 128},
    ),
}


@pytest.mark.parametrize("name", TABLES_6_AND_7)
def test_the_paper_presets_of_vtrace_are_tables_6_and_7(name):
    line, _ = resolved(name)
    learner = line.read(LearnerConfig, num_envs=1, server_address="", logdir="")
    environment, agent, training = TABLES_6_AND_7[name]
    # The tables have neither a schedule nor a limit of the gradient's norm.
    training = training | {"optimizer": "adam", "learning_rate_schedule": "constant", "clip_norm": 0}
    for config, table in (
        (line.environment_config(), environment),
        (line.agent_config(), agent),
        (learner, training),
    ):
        settings = config.to_dict()
        assert {name: settings[name] for name in table} == table


def test_the_paper_preset_of_r2d2_is_tables_8_and_9():
    line, _ = resolved("atari_r2d2")
    agent, environment = line.agent_config(), line.environment_config()
    learner = line.read(LearnerConfig, num_envs=620, server_address="", logdir="")
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
        "use_last_action_and_reward": True,
        "max_abs_last_reward": 0,  # Table 9: no clipping of rewards.
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
        "evaluation_window": 200,  # Figure 7.
        "total_environment_frames": 40 * 10**9,
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
        settings = config.to_dict()
        assert {name: settings[name] for name in table} == table
    assert agent.burn_in + agent.unroll_length == 120
    # Its 610 actors have one environment each, and an epsilon of their own.
    local = line.read(LocalConfig)
    assert local.num_actors * local.env_batch_size - agent.num_eval_envs == 610
