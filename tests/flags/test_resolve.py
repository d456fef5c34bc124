"""The layers of settings: docs/presets.md has them in the same order."""

import json

import pytest

from seed_rl.flags.errors import UsageError
from seed_rl.flags.resolve import Launching, resolve
from seed_rl.flags.settings import Settings
from seed_rl.launch.plan import make_plan, resolve_run
from seed_rl.learner.learner_config import LearnerConfig

PRESET = "preset small/catch_r2d2.flags"
R2D2 = ("catch", "r2d2", "--logdir=none")
ATARI = ("atari", "vtrace", "--logdir=none")


@pytest.fixture
def configs(tmp_path):
    (tmp_path / "small").mkdir()
    lines = "--environment=catch\n--agent=r2d2\n--learning_rate=0.5\n--burn_in=1\n--num_eval_envs=30"
    (tmp_path / "small/catch_r2d2.flags").write_text(lines)
    (tmp_path / "mine.flags").write_text("--environment=catch\n--agent=r2d2\n--learning_rate=0.25")
    return tmp_path


@pytest.mark.parametrize(
    ("args", "name", "value", "origin"),
    [
        (R2D2, "publish_every", 1, "default"),
        (R2D2, "unroll_length", 80, "default"),
        (R2D2, "clip_norm", 80.0, "algorithm"),  # 40.0 for others.
        (R2D2, "learning_rate", 0.5, PRESET),  # 1e-4 is the algorithm's.
        ((*R2D2, "--learning_rate=0.1"), "learning_rate", 0.1, "flag"),
        ((*R2D2, "--learning_rate=0.1", "--learning_rate=0.2"), "learning_rate", 0.2, "flag"),
        ((*R2D2, "--burn_in=1"), "burn_in", 1, "flag"),  # The preset's, and chosen again.
        (("--flagfile={}/mine.flags", "--logdir=none"), "learning_rate", 0.25, "{}/mine.flags"),
        (("--flagfile={}/mine.flags", "--logdir=none"), "burn_in", 40, "default"),  # No preset then.
        (("--flagfile={}/mine.flags", "--learning_rate=1"), "learning_rate", 1.0, "flag"),
        (("--learning_rate=1", "--flagfile={}/mine.flags"), "learning_rate", 0.25, "{}/mine.flags"),
        (("catch", "r2d2", "1", "4", "--flagfile={}/mine.flags"), "env_batch_size", 4, "flag"),
        (("catch", "vtrace", "--logdir=none"), "unroll_length", 20, "vectors and discrete actions"),
        ((*R2D2, "--num_actors=2", "--env_batch_size=8"), "num_eval_envs", 8, "fitted to 16 environments"),
        ((*R2D2, "--num_eval_envs=30"), "num_eval_envs", 30, "flag"),
        (("catch", "ppo", "1", "6", "--logdir=none"), "batch_size", 1, "vectors and discrete actions"),
        (("catch", "ppo", "1", "6", "--logdir=none", "--batch_size=4"), "batch_size", 4, "flag"),
        (("catch", "rainbow", "--logdir=none"), "dueling", True, "vectors and discrete actions"),
        (("catch", "r2d2", "--seed=3"), "logdir", "runs/catch_r2d2_seed3", "default"),
        (R2D2, "seed", 1, "default"),
        (ATARI, "terminal_on_life_loss", True, "environment"),
        ((*ATARI, "--protocol=machado"), "terminal_on_life_loss", False, "flag"),
        ((*ATARI, "--protocol=machado"), "sticky_action_probability", 0.25, "flag"),
        ((*ATARI, "--protocol=machado"), "max_random_noops", 0, "flag"),
        ((*ATARI, "--protocol=machado", "--max_random_noops=0"), "full_action_space", False, "environment"),
        ((*ATARI, "--protocol=machado", "--protocol=noops"), "max_random_noops", 30, "default"),
    ],
)
def test_the_last_layer_that_has_a_value_wins(configs, args, name, value, origin):
    args = [arg.format(configs) for arg in args]
    settings = resolve_run(["train", *args], launching=Launching(configs=configs))
    assert (settings.values[name], settings.origins[name]) == (value, origin.format(configs))


def test_a_learner_alone_has_the_same_layers_without_presets(configs):
    settings = resolve(["learner", "catch", "a2c", "--num_envs=6"], "", (LearnerConfig,))
    assert (settings.values["batch_size"], settings.origins["batch_size"]) == (6, "fitted to 6 environments")
    assert settings.origins["learning_rate"] == "default" and settings.preset is None


def test_a_child_reads_what_its_launcher_resolved_and_decides_nothing(configs, tmp_path):
    launched = resolve_run(["train", *R2D2, "--seed=7"], launching=Launching(configs=configs))
    plan = make_plan(launched, "unix:/tmp/x")
    file = tmp_path / "settings.json"
    file.write_text(plan.settings.to_json())
    child = resolve(["learner", f"--settings={file}", "--learner_index=1"], "", (LearnerConfig,))
    assert (child.environment, child.agent, child.values["learner_index"]) == ("catch", "r2d2", 1)
    assert child.agent_config() == plan.settings.agent_config()
    assert child.read(LearnerConfig, learner_index=0) == plan.settings.read(LearnerConfig)
    shared = child.values.keys() & plan.settings.values.keys()
    assert {n: child.origins[n] for n in shared} == {n: plan.settings.origins[n] for n in shared}


@pytest.mark.parametrize(
    "content", [None, "", "[]", "{}", '{"environment": 1}', '{"environment": "moon", "agent": "ppo"}']
)
def test_a_file_that_is_none_of_a_launcher_is_one_sentence(tmp_path, content):
    file = tmp_path / "settings.json"
    if content is not None:
        file.write_text(content)
    with pytest.raises(UsageError, match=r"--settings=.* cannot be read"):
        resolve(["learner", f"--settings={file}"], "", (LearnerConfig,))


def test_a_value_of_another_type_in_the_file_is_one_sentence(tmp_path):
    settings = resolve_run(["train", "catch", "vtrace"]).replaced("me", batch_size="many", num_envs=4)
    (tmp_path / "settings.json").write_text(settings.to_json())
    with pytest.raises(UsageError, match="'many' is not a valid --batch_size"):
        resolve(["learner", f"--settings={tmp_path}/settings.json"], "", (LearnerConfig,))


def test_explain_prints_every_value_and_its_origin_and_trains_nothing(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        resolve_run(["train", "atari", "vtrace", "--seed=4", "--explain"])
    lines = capsys.readouterr().out.splitlines()
    found = {line.split("=")[0].strip(" -"): line for line in lines if line.startswith("  --")}
    assert ended.value.code == 0 and not list(tmp_path.iterdir())
    assert found["seed"].split() == ["--seed=4", "flag"]
    assert found["frame_stack"].split() == ["--frame_stack=4", "preset", "small/atari_vtrace.flags"]
    assert found["kl_cost"].split() == ["--kl_cost=0.0", "default"]
    settings = resolve_run(["train", "atari", "vtrace"])
    assert found.keys() == settings.values.keys()
    assert Settings(**json.loads(settings.to_json())) == settings
