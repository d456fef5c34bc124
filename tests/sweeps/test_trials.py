"""Values that trials draw, and the commands of their runs; also of the spaces in configs/sweeps."""

import re
import sys
from pathlib import Path

import pytest

from seed_rl.flags.errors import UsageError
from seed_rl.flags.flagfile import configs_directory
from seed_rl.launch.plan import resolve_run
from seed_rl.learner.learner_config import LearnerConfig
from seed_rl.sweeps.space import read_space
from seed_rl.sweeps.trials import Sweep, draw

SPACE = """
environment: catch
agent: vtrace
flagfile: preset.flags
flags: {total_environment_frames: 5e4, normalize_observations: true}
space:
  learning_rate: {log_uniform: [1e-4, 1e-2]}
  unroll_length: {choice: [10, 20]}
"""


def written(tmp_path, text=SPACE):
    (tmp_path / "preset.flags").write_text("--learning_rate=7\n--rows=9\n--total_environment_frames=1\n")
    path = tmp_path / "space.yaml"
    path.write_text(text)
    return read_space(path)


def made(tmp_path, *arguments, text=SPACE, trials=3, sweep_seed=1):
    return Sweep(written(tmp_path, text), tmp_path / "sweep", trials, sweep_seed, arguments=arguments)


def test_a_run_is_a_command_of_the_launcher(tmp_path):
    sweep = made(tmp_path, "--flagfile=/dev/null", "--batch_size=4")
    run = sweep.run(2, 2, {"learning_rate": 0.001, "unroll_length": 20})
    assert (run.trial, run.seed, run.total_frames) == (2, 2, 50_000)
    assert run.command == [
        *(sys.executable, "-m", "seed_rl", "train"),
        *(f"--flagfile={tmp_path / 'preset.flags'}", "--environment=catch", "--agent=vtrace"),
        *("--total_environment_frames=50000.0", "--normalize_observations=true"),
        *("--flagfile=/dev/null", "--batch_size=4"),
        *("--learning_rate=0.001", "--unroll_length=20", "--seed=2"),
        f"--logdir={tmp_path / 'sweep' / 'trial_002' / 'seed_2'}",
    ]
    assert run.log == tmp_path / "sweep" / "trial_002" / "seed_2.log"
    assert not (tmp_path / "sweep").exists()
    # Flagfiles that are named leave no room for a preset.
    assert sweep.flagfiles == [tmp_path / "preset.flags", Path("/dev/null")]
    text = SPACE.replace("flagfile: preset.flags\n", "")
    assert made(tmp_path, "--flagfile=/dev/null", text=text).flagfiles == [Path("/dev/null")]
    # The command line wins over the file, and a value that is drawn over both.
    sweep = made(tmp_path, "--total_environment_frames=77", "--agent=r2d2", "--burn_in=0")
    assert sweep.run(1, 1, {}).total_frames == 77
    assert sweep.run(1, 1, {"total_environment_frames": 1e3}).total_frames == 1000
    assert sweep.identity["agent"] == "r2d2"


def test_a_space_without_a_flagfile_gets_the_launchers_preset(tmp_path):
    text = SPACE.replace("flagfile: preset.flags\n", "").replace("total_environment_frames: 5e4, ", "")
    sweep = made(tmp_path, text=text)
    assert sweep.flagfiles == [configs_directory() / "small/catch_vtrace.flags"]
    frames = sweep.identity["flags"]["total_environment_frames"]
    assert sweep.total_frames == frames == 150_000  # The preset's.
    # The launcher's settings of the command equal those that were checked.
    run = sweep.run(1, 1, {"learning_rate": 0.001})
    found = resolve_run(run.command[3:])
    assert (found.preset, found.values["total_environment_frames"]) == (None, run.total_frames)


def test_the_identity_says_what_every_run_has_and_no_more(tmp_path):
    identity = made(tmp_path, "--batch_size=4", "--nouse_last_action_and_reward", sweep_seed=5).identity
    flags = {"batch_size": 4, "normalize_observations": True, "rows": 9, "total_environment_frames": 50_000}
    assert identity == {
        "environment": "catch",
        "agent": "vtrace",
        "sweep_seed": 5,
        "flags": flags | {"use_last_action_and_reward": False},
        "space": {"learning_rate": {"log_uniform": [1e-4, 1e-2]}, "unroll_length": {"choice": [10, 20]}},
    }


@pytest.mark.parametrize(
    ("old", "new", "argument", "words"),
    [
        ("catch", "chess", "", "--environment=chess is not valid; choose one of"),
        ("flagfile: preset", "flagfile: none", "", "cannot be read"),
        ("normalize_", "normalise_", "", "did you mean --normalize_observations"),
        ("unroll_", "unrol_", "", "space.yaml: Unknown flag --unrol_length for environment catch and agent"),
        ("choice: [10", "uniform: [10", "", "it must be a whole number"),
        ("", "", "--environment=socker", "--environment=socker is not valid; choose one of: "),
        ("", "", "--learning_rate=1", "--learning_rate=1 is also drawn in "),
        ("", "", "--seed=3", "--seed=3 cannot be set in a sweep: --seeds=K gives the seeds 1 to K"),
        ("", "", "--server_address=unix:/s", "cannot be set in a sweep: each run has its own"),
        ("", "", "--batch_sise=4", "Unknown flag --batch_sise"),
    ],
)
def test_what_the_launcher_would_refuse_is_refused_before_anything_starts(
    tmp_path, old, new, argument, words
):
    text = SPACE.replace(old, new) if old else SPACE
    with pytest.raises(UsageError, match=re.escape(words)) as caught:
        made(tmp_path, *filter(None, [argument]), text=text)
    assert "\n" not in str(caught.value)


def test_a_bad_value_is_found_in_whichever_trial_it_is(tmp_path):
    text = SPACE.replace("choice: [10, 20]", "int_uniform: [-3, 40]")
    sampled = [draw(written(tmp_path, text), 1, trial)["unroll_length"] for trial in range(1, 101)]
    first = next(trial for trial, value in enumerate(sampled, start=1) if value < 1)
    assert 1 < first < 100
    with pytest.raises(UsageError, match=rf"^Trial {first} of .*$"):
        made(tmp_path, text=text, trials=100)
    made(tmp_path, text=text, trials=first - 1)


def test_values_are_inside_their_ranges_and_all_of_them_come_up(space):
    samples = [draw(space, 7, trial) for trial in range(1, 301)]
    columns = {name: [sample[name] for sample in samples] for name in space.parameters}
    assert all(0.5 <= value <= 2 for value in columns["clip_norm"])
    assert all(1e-5 <= value <= 1e-2 for value in columns["learning_rate"])
    low = sum(value < 1e-4 for value in columns["learning_rate"])
    assert 0.2 < low / 300 < 0.5  # A third of the decades.
    assert set(columns["adam_epsilon"]) == {1e-7, 0.001, 1}
    assert set(columns["torso"]) == {"auto", "mlp"}
    assert set(columns["unroll_length"]) == set(range(3, 11))
    assert all(type(value) is int for value in columns["unroll_length"])


@pytest.mark.parametrize("sampler", ["random", "tpe"])
def test_a_draw_depends_on_the_seed_and_the_number_only(space, sampler):
    drawn = [draw(space, seed, trial, sampler) for seed in (1, 2) for trial in (1, 2, 77)]
    assert [draw(space, seed, trial, sampler) for seed in (1, 2) for trial in (1, 2, 77)] == drawn
    assert len({tuple(values.items()) for values in drawn}) == 6


DIRECTORY = configs_directory() / "sweeps"


@pytest.mark.parametrize("path", sorted(DIRECTORY.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_run_has_the_values_that_are_drawn_and_the_flags_of_its_space(path, tmp_path):
    space = read_space(path)
    sweep = Sweep(space, tmp_path / "new", 8, 1)
    assert sweep.flagfiles == [space.flagfile]
    for trial in range(1, 9):
        values = draw(space, 1, trial)
        run = sweep.run(trial, 1, values)
        # As the launcher reads the command.
        line = resolve_run(run.command[3:])
        assert (line.environment, line.agent, line.preset) == (space.environment, space.agent, None)
        agent, environment = line.agent_config(), line.environment_config()
        learner = line.read(LearnerConfig, num_envs=1, logdir="", server_address="")
        assert learner.total_environment_frames == run.total_frames
        everything = {**agent.to_dict(), **learner.to_dict(), **environment.to_dict()}
        drawn = values | space.flags
        assert {name: everything[name] for name in drawn} == drawn
