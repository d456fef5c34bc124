"""Whole runs by the launcher: they learn, stop, resume, restart their actors, and leave nothing running."""

import re
import signal

import pytest

from seed_rl.wire.shared_memory import is_supported
from tests.environments import slow
from tests.processes.test_interrupts import IGNORING_SIGINT

pytestmark = pytest.mark.slow

RESTARTED = re.compile(r"actor 0 was ended by SIGKILL .*; restart [0-9]+\.")
LAST_LINE = (
    r"Training is complete: [\d,]+ frames in [\d.]+ (s|minutes), [\d,]+ frames/s, mean return (-?[\d.]+)"
)


def local_run(house, *args, environment="catch", agent="vtrace", actors=("2", "4")):
    """A run, started as by a shell without a terminal: it ignores SIGINT at first."""
    start = ("train", environment, agent, *actors, *house.small[2:], f"--logdir={house.logdir}")
    return house.start("train", "seed_rl", *start, *args, code=IGNORING_SIGINT)


def test_catch_is_learnt(finished_run):
    house, exit_code, output = finished_run
    assert exit_code == 0, output
    ended = re.search(LAST_LINE, output)
    assert ended, output
    assert float(ended[2]) >= 0.95
    first_return = re.search("mean return ([-0-9.]+)", output)
    assert first_return and float(first_return[1]) < 0.95  # One sees it learn.
    assert house.metrics()[-1]["mean_return"] >= 0.95
    assert house.metrics()[-1]["env_frames"] >= 120_000
    assert (house.logdir / "saved_model" / "saved_model.pb").is_file()
    for task in range(2):
        assert "Traceback" not in (house.logdir / f"actor_{task}.log").read_text()


def test_the_versions_within_an_unroll_are_measured(finished_run):
    """The last step of an unroll is acted on by newer weights than the first, by as much as they changed."""
    house, _, _ = finished_run
    periods = [line for line in house.metrics() if "policy_lag_first_updates" in line]
    assert periods
    for line in periods:
        first, last = line["policy_lag_first_updates"], line["policy_lag_last_updates"]
        assert 0 <= last <= first
        assert line["version_spread_mean_updates"] == pytest.approx(first - last)
        assert line["version_spread_mean_updates"] <= line["version_spread_max_updates"]
    assert max(line["version_spread_max_updates"] for line in periods) > 0


def test_the_same_command_on_a_complete_run_trains_nothing(finished_run):
    house, _, _ = finished_run
    before = house.metrics()
    command = ("train", "catch", "vtrace", f"--logdir={house.logdir}")
    run = house.start(*command, "--total_environment_frames=120000")
    assert run.end(seconds=20) == 0  # Half a second on an idle machine.
    assert "is already complete: 120,000 frames" in run.output
    assert run.last_line == f"  seed_rl {' '.join(command)} --total_environment_frames=240000"
    assert "TensorFlow" not in run.output and house.metrics() == before

    (house.logdir / "saved_model").rename(house.path / "moved")
    run = house.start(*command, "--total_environment_frames=120000")
    assert run.end() == 0
    assert "Resuming from" in run.output and (house.logdir / "saved_model").is_dir()


def test_rollouts_wait_for_an_actor_that_was_killed(house, monkeypatch):
    """All environments wait for one another, and for training."""
    monkeypatch.setenv(slow.UNTIL, str(house.path / "go"))
    flags = (
        f"--game={slow.GAME}",
        "--total_environment_frames=6000",
        "--epochs=2",
        "--num_inference_threads=2",
    )
    run = local_run(house, *flags, environment="gym", agent="ppo", actors=("3", "4"))
    before = house.wait_for_metrics(lambda line: line["updates"] > 20, run)
    run.child("--task=1").kill()
    (house.path / "go").touch()
    after = house.wait_for_metrics(lambda line: line["actor_restarts"], run)
    assert run.end() == 0, run.output
    last = house.metrics()[-1]
    assert last["updates"] > after["updates"] >= before["updates"]
    # One unroll of 10 steps of each of 12 environments is trained on in 2 x 3 minibatches. Besides, there are
    # at most all steps of the killed actor's unroll, and of the rollout at which training ends.
    rollouts = last["updates"] / 6
    assert 0 <= last["agent_steps"] - rollouts * 120 <= 120 + 40
    names = [f"policy_lag_{step}_updates" for step in ("first", "last")] + ["version_spread_max_updates"]
    assert {line[name] for line in house.metrics() for name in names if name in line} == {0.0}


def test_rollouts_through_two_learner_hosts(house):
    flags = ("--epochs=2", "--num_learners=2", "--total_environment_frames=4000")
    run = local_run(house, *flags, agent="ppo")
    assert run.end() == 0, run.output
    assert house.metrics()[-1]["updates"] > 20


@pytest.mark.parametrize("learners", [1, 2])
def test_a_start_that_fails_says_so_once_and_leaves_no_directory(house, learners):
    game = ("--game=Brakout", f"--num_learners={learners}", f"--logdir={house.path}/runs/new")
    run = house.start("train", "atari", "vtrace", "2", "4", *game)
    assert run.end() == 2
    assert run.output.count("--game=Brakout is not an Atari game") == 1, run.output
    assert not (house.path / "runs").exists()


def test_ctrl_c_saves_and_the_same_command_goes_on_to_the_end(house):
    # One actor: it has played when there are updates. Of several, each may not have.
    one = ("1", "8")
    run = local_run(house, "--total_environment_frames=1000000000000", actors=one)
    learner, actor = run.child("learner"), run.child("--task=0")
    restarts = house.wait_for_metrics(lambda line: line["updates"] > 5, run)["actor_restarts"]
    assert house.shares_memory(actor) == is_supported()
    assert "Steps are sent as messages" not in run.output
    actor.kill()
    run.wait_for("actor 0 was ended by SIGKILL")
    house.wait_until(lambda: RESTARTED.search(run.output), lambda: f"the restart in: {run.output}")
    house.wait_for_metrics(lambda line: line["actor_restarts"] > restarts, run)

    processes = [learner, actor, *run.children()]
    run.signal(signal.SIGINT)
    assert run.end() == 130
    house.wait_until_gone(processes)
    assert "Stopped with a checkpoint: " in run.output
    assert run.last_line == "seed_rl: stopped; the same command resumes it."
    assert "Traceback" not in run.output
    stopped = house.metrics()

    run = local_run(house, f"--total_environment_frames={stopped[-1]['env_frames'] + 2000}", actors=one)
    house.wait_until(run.children, "processes")
    processes = run.children()
    assert run.end() == 0
    house.wait_until_gone(processes)
    assert "Resuming from " in run.output
    assert re.search(LAST_LINE, run.output), run.output
    assert house.metrics()[len(stopped)]["env_frames"] >= stopped[-1]["env_frames"]
    assert (house.logdir / "saved_model").is_dir()


def test_two_learners_start_again_when_one_is_killed_and_complete_the_run(house, monkeypatch):
    total, go = 6_000, house.path / "go"
    monkeypatch.setenv(slow.UNTIL, str(go))
    game = (f"--game={slow.GAME}", f"--total_environment_frames={total}")
    flags = ("--num_learners=2", "--host_timeout_secs=20", "--save_checkpoint_secs=0.5")
    run = local_run(house, *game, *flags, environment="gym", actors=("4", "4"))
    second = run.child("--learner_index=1")
    house.wait_for_checkpoint(run)
    second.kill()
    go.touch()
    run.wait_for("; all learners start again from the last checkpoint (restart 1 of 5).")
    for number in range(2):
        run.child(f"--learner_index={number}")
    processes = run.children()
    assert run.end() == 0, run.output
    house.wait_until_gone(processes)
    assert run.output.count("seed_rl: learner 1 was ended by SIGKILL") == 1
    assert "Resuming from " in run.output
    assert re.search(LAST_LINE, run.output), run.output
    assert run.output.count("Training is complete") == 1  # The other learner has a log.
    assert "Training is complete" in (house.logdir / "learner_1.log").read_text()
    assert house.metrics()[-1]["env_frames"] >= total
