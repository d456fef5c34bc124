"""A sweep of real runs of Catch: interrupted, resumed, and left without processes."""

import csv
import signal

import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

from seed_rl.flags.configs import configs_directory
from seed_rl.runs import record
from seed_rl.sweeps.study import latest, outcomes

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


def outcome_of(logdir, trial):
    """How the first run of a trial ended; None before that."""
    storage = JournalStorage(JournalFileBackend(str(logdir / "journal.log")))
    study = optuna.load_study(study_name="sweep", storage=storage)
    return outcomes(latest(study)[trial]).get(1)


def test_a_sweep_is_interrupted_and_gone_on_with(house):
    # The first run trains: its figures are there.
    house.logdir = house.path / "sweep" / "trial_001" / "seed_1"
    first = sweep(house)
    house.wait_for_metrics(lambda line: line["updates"] > 0, first)
    processes = first.children()
    assert len(processes) == 6  # The launcher, its learner and its actor, each with its tether.
    first.signal(signal.SIGINT)
    assert first.end() == 130, first.output
    house.wait_until_gone(processes)
    assert first.last_line == "seed_rl: stopped; the same command resumes it."
    log = house.logdir.with_suffix(".log")
    complete = outcome_of(house.path / "sweep", 1) is not None
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
        outcome = outcome_of(house.path / "sweep", trial)
        assert (outcome.exit_code, outcome.return_name) == (0, "mean_return")
        assert outcome.env_frames >= 4000
    picture = house.path / "sweep" / "sorted.png"
    assert picture.exists() or "cannot draw" in second.output


def shipped_sweep(house, name, *args):
    """One short trial of a space in configs/sweeps; what its outcome says, and the run's record."""
    space, logdir = configs_directory() / "sweeps" / f"{name}.yaml", house.path / name
    small = ("--num_actors=1", "--batch_size=2", "--log_period_secs=0.25")
    process = house.start("sweep", str(space), f"--logdir={logdir}", "--trials=1", "--seeds=1", *small, *args)
    assert process.end(seconds=300) == 0, process.output
    assert "(1 of 1 runs done)" in process.output
    run = logdir / "trial_001" / "seed_1"
    return outcome_of(logdir, 1), record.read(str(run))


def test_a_trial_of_the_shipped_catch_space_runs_and_is_done(house):
    outcome, run = shipped_sweep(house, "catch", "--total_environment_frames=2000")
    assert outcome.exit_code == 0 and outcome.env_frames >= 2000
    assert (run.environment, run.agent_settings["lstm_size"]) == ("catch", 0)


def test_a_trial_of_the_shipped_dmlab_space_runs_on_the_double_and_is_done(house):
    (house.path / "deepmind_lab.py").write_text("from tests.environments.suites.dmlab_double import Lab\n")
    # 2 batches of 2 unrolls of 32 agent steps of 4 frames are 512 frames.
    small = ("--total_environment_frames=600", "--width=32", "--height=24")
    outcome, run = shipped_sweep(house, "dmlab_stability", *small)
    assert outcome.exit_code == 0 and outcome.env_frames >= 600
    assert (run.environment, run.game) == ("dmlab", "explore_goal_locations_small")
    assert (run.agent_settings["torso"], run.agent_settings["unroll_length"]) == ("resnet", 32)


@pytest.mark.football
def test_a_trial_of_the_shipped_football_space_runs_and_is_done(house):
    pytest.importorskip("gfootball")
    outcome, run = shipped_sweep(house, "football", "--total_environment_frames=100")
    assert outcome.exit_code == 0 and outcome.env_frames >= 100
    assert (run.environment, run.game) == ("football", "11_vs_11_hard_stochastic")
    assert (run.agent_settings["torso"], run.agent_settings["unroll_length"]) == ("football", 32)
