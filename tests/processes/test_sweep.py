"""A sweep of real runs of Catch: interrupted, resumed, and left without processes."""

import csv
import signal

import pytest

from seed_rl.flags.flagfile import configs_directory
from seed_rl.runs import record
from tests.sweeps.conftest import load_study

pytestmark = pytest.mark.slow

SPACE = """
environment: catch
agent: vtrace
flags:
  num_actors: 1
  env_batch_size: 8
  total_environment_frames: 4000
  lstm_size: 0
  batch_size: 4
  intra_op_threads: 1
  log_period_secs: 0.25
space:
  learning_rate: {log_uniform: [1e-3, 1e-2]}
  unroll_length: {choice: [5, 10]}
"""


def sweep(house, *args):
    space = house.path / "space.yaml"
    space.write_text(SPACE)
    return house.start("sweep", str(space), f"--logdir={house.path / 'sweep'}", "--trials=2", *args)


def end_of(logdir, trial):
    """Optuna's record of the first run of a trial; None before it has ended."""
    runs = [run for run in load_study(logdir).trials if run.user_attrs["trial"] == trial]
    return runs[-1] if runs and runs[-1].state.is_finished() else None


def test_a_sweep_is_interrupted_and_gone_on_with(house):
    # The first run trains: its figures are there.
    house.logdir = house.path / "sweep" / "trial_001" / "seed_1"
    first = sweep(house)
    house.wait_for_metrics(lambda line: line["updates"] > 0, first)
    processes = first.children()
    assert len(processes) == 6  # The launcher, its learner and its actor, each with its reaper.
    first.signal(signal.SIGINT)
    assert first.end() == 130, first.output
    house.wait_until_gone(processes)
    assert first.last_line == "seed_rl: stopped; the same command resumes it."
    log = house.logdir.with_suffix(".log")
    complete = end_of(house.path / "sweep", 1) is not None
    assert complete or "Stopped with a checkpoint: " in log.read_text()

    second = sweep(house)
    house.wait_until(second.children, "processes")
    processes = second.children()
    assert second.end(seconds=200) == 0, second.output
    house.wait_until_gone(processes)
    assert complete or "Resuming from " in log.read_text()
    assert "(2 of 2 runs done)" in second.output
    with open(house.path / "sweep" / "table.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert sorted(row["trial"] for row in rows) == ["1", "2"]
    assert float(rows[0]["final_return"]) >= float(rows[1]["final_return"])
    for trial in (1, 2):
        end = end_of(house.path / "sweep", trial)
        assert end.user_attrs["end"].startswith("mean return ") and end.user_attrs["exit_code"] == 0
    picture = house.path / "sweep" / "sorted.png"
    assert picture.exists() or "cannot draw" in second.output


SHORT = "--total_environment_frames="
# A space in configs/sweeps, more flags, and what the record has. 2 batches of 2 unrolls of 32 agent steps
# of DMLab's 4 frames are 512 frames.
SHIPPED = [
    ("catch", [SHORT + "2000"], "catch", {"lstm_size": 0}),
    (
        "dmlab_stability",
        [SHORT + "600", "--width=32", "--height=24"],
        "explore_goal_locations_small",
        {"torso": "resnet", "unroll_length": 32},
    ),
    pytest.param(
        *(
            "football",
            [SHORT + "100"],
            "11_vs_11_hard_stochastic",
            {"torso": "football", "unroll_length": 32},
        ),
        marks=pytest.mark.football,
    ),
]


@pytest.mark.parametrize(("name", "flags", "played", "agent"), SHIPPED)
def test_a_short_trial_of_a_shipped_space_runs_and_is_done(house, name, flags, played, agent):
    if name == "football":
        pytest.importorskip("gfootball")
    (house.path / "deepmind_lab.py").write_text("from tests.environments.suites.dmlab_double import Lab\n")
    space, logdir = configs_directory() / "sweeps" / f"{name}.yaml", house.path / name
    small = ("--num_actors=1", "--batch_size=2", "--log_period_secs=0.25", "--trials=1", "--seeds=1")
    process = house.start("sweep", str(space), f"--logdir={logdir}", *small, *flags)
    assert process.end(seconds=300) == 0, process.output
    assert "(1 of 1 runs done)" in process.output
    run = record.read(str(logdir / "trial_001" / "seed_1"))
    assert end_of(logdir, 1).user_attrs["exit_code"] == 0
    assert played in (run.environment, run.game)
    assert run.agent_settings.items() >= agent.items()
