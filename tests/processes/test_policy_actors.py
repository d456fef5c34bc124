"""Actors that hold the policy (--inference=actor): they learn, die, come back, and are refused."""

import contextlib
import re
import signal

import grpc
import numpy as np
import pytest

from tests.processes.client import Client
from tests.processes.test_counting import ENVIRONMENT

pytestmark = pytest.mark.slow

ACTORS_ACT = "--inference=actor"
SIZE = 4


@pytest.mark.parametrize("agent", ["vtrace", "appo"])
def test_catch_is_learned(house, agent):
    flags = (ACTORS_ACT, "--stop_at_return=0.97", "--total_environment_frames=400000")
    run = house.start("train", "catch", agent, *flags, f"--logdir={house.logdir}")
    assert run.end(seconds=280) == 0, run.output
    last = house.metrics()[-1]
    assert last["mean_return"] >= 0.95
    assert last["actor_processes"] == 2 and last["weights_mib_per_second"] > 0
    assert "Training on CPU:0; inference in the actors." in run.output
    assert "From a step to its actions: " in (house.logdir / "actor_0.log").read_text()
    # A run may stop at a lucky moment: a policy that loses 5% of its games does so in 1 of 1,000 such tests.
    evaluation = house.start("evaluate", f"--logdir={house.logdir}", "--episodes=200")
    assert evaluation.end() == 0, evaluation.output
    found = re.search(r"mean return +(\S+)", evaluation.output)
    assert found and float(found[1]) >= 0.8, evaluation.output


@pytest.fixture(scope="module")
def playing(open_house):
    """A house with a learner and an actor that plays; four of eight environments are for the tests."""
    house = open_house()
    house.live = house.learner(ACTORS_ACT, "--num_envs=8")
    house.actors = [house.start("policy_actor", *house.actor_args())]
    house.wait_for_metrics(lambda line: line["updates"] > 5, house.live)
    yield house
    house.close()


def test_actors_without_and_with_a_policy_are_refused_where_they_do_not_fit(playing, goes_on, house):
    thin = playing.actor()
    assert thin.end() == 2 and "start `seed_rl policy_actor`" in thin.last_line
    learner = house.learner()
    actor = house.start("policy_actor", *house.actor_args())
    assert actor.end() == 2 and "start `seed_rl actor`" in actor.last_line
    assert learner.running


@pytest.mark.parametrize("size", [-1, 100])
def test_an_unroll_of_another_size_ends_its_connection(playing, goes_on, size):
    with contextlib.closing(Client(playing.address)) as client:
        welcome = client.join(SIZE, holds_policy=True)
        assert welcome.policy.weights.arrays
        client.ready(0)
        client.step(0, np.zeros(SIZE * welcome.policy.unroll_bytes + size, np.uint8))
        assert client.actions() is None
        code, said = client.status()
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert re.search(r"An unroll of 4 environments must be \d+ bytes", said)


def test_actors_that_are_killed_and_a_learner_that_comes_back_cost_only_unfinished_unrolls(house):
    """Episodes take five agent steps each, so the account of those that were trained on balances."""
    (house.path / "limited.py").write_text(ENVIRONMENT)
    game = ("--environment=gym", "--game=limited:Limited5-v0")
    args = (*house.actor_args(), *game)
    learner = house.learner(*game, ACTORS_ACT, "--num_envs=8")
    actors = [house.start("policy_actor", *args) for _ in range(2)]
    for round in range(2):
        house.wait_for_metrics(lambda line, n=round: line["updates"] > 10 * (n + 1), learner)
        actors[round].signal(signal.SIGKILL)
        actors.append(house.start("policy_actor", *args))
    end = house.metrics()[-1]
    house.wait_for_metrics(lambda line: line["env_frames"] > end["env_frames"] + 3000, learner)
    learner.signal(signal.SIGTERM)
    assert learner.end() == 128 + signal.SIGTERM
    end = house.metrics()[-1]
    assert end["mean_episode_agent_steps"] == 5
    assert abs(end["agent_steps"] - 5 * end["episodes"]) < end["episodes"] / 2
    frames = f"--total_environment_frames={end['env_frames'] + 5000}"
    learner = house.learner(*game, ACTORS_ACT, "--num_envs=8", frames)
    assert learner.end() == 0, learner.output
    assert [actor.end() for actor in actors[2:]] == [0, 0]
    assert "Resuming from" in learner.output


@pytest.mark.parametrize(
    ("agent", "flags", "words"),
    [
        ("ppo", (), "needs an agent that learns from a queue, not ppo; choose one of: appo, vtrace."),
        *((agent, (), "needs an agent that learns from a queue, not ") for agent in ("dqn", "r2d2")),
        ("vtrace", ("--synchronous",), "--synchronous is for a learner that chooses the actions"),
        ("vtrace", ("--num_gateways=1",), "--num_gateways is for a learner that chooses the actions"),
        (
            "vtrace",
            ("--inference_devices=0",),
            "--inference_devices is for a learner that chooses the actions",
        ),
        ("vtrace", ("--num_learners=2",), "--num_learners=2 needs learners that choose the actions"),
    ],
)
def test_what_actors_that_act_cannot_do_is_refused(house, agent, flags, words):
    run = house.start("train", "catch", agent, ACTORS_ACT, *flags, f"--logdir={house.logdir}")
    assert run.end() == 2 and words in run.last_line and not house.logdir.exists()
