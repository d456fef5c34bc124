"""Rollouts in real processes: all environments wait for one another, and for training."""

import signal

import pytest

from tests.environments import slow

pytestmark = pytest.mark.slow


def local_run(house, *args, environment="catch", num_actors=3):
    start = ("train", environment, "ppo", str(num_actors), "4")
    own = ("--epochs=2", "--num_inference_threads=2", f"--logdir={house.logdir}")
    return house.start(*start, *house.small[2:], *own, *args)


def test_a_killed_actor_holds_up_the_others_until_it_is_back(house, monkeypatch):
    monkeypatch.setenv(slow.UNTIL, str(house.path / "go"))
    run = local_run(house, f"--game={slow.GAME}", "--total_environment_frames=6000", environment="gym")
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


def test_it_stops_resumes_and_is_evaluated(house):
    run = local_run(house)
    house.wait_for_metrics(lambda line: line["updates"] > 20, run)
    run.signal(signal.SIGINT)
    assert run.end() == 130, run.output
    stopped = house.metrics()[-1]
    run = local_run(house, f"--total_environment_frames={stopped['env_frames'] + 3000}")
    assert run.end() == 0, run.output
    assert house.metrics()[-1]["updates"] > stopped["updates"]
    evaluation = house.start("evaluate", f"--logdir={house.logdir}", "--episodes=4")
    assert evaluation.end() == 0, evaluation.output


def test_rollouts_through_two_learner_hosts(house):
    run = local_run(house, "--num_learners=2", "--total_environment_frames=4000", num_actors=2)
    assert run.end() == 0, run.output
    assert house.metrics()[-1]["updates"] > 20
